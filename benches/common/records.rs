//! Figures, as they are kept between the programs that measure and the one that reports: a CSV file for each question.

use super::form::Form;
use std::error::Error;
use std::fs;

/// One figure.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    pub workload: String,
    pub threads: usize,
    pub subject: String,
    /// What the value is, with its unit.
    pub measure: String,
    pub value: f64,
    /// The quartiles of what the value is the median of; the value itself where there was only one.
    pub quartiles: [f64; 2],
    pub samples: usize,
    /// How many percent of the samples were undisturbed.
    pub calm: usize,
}

const HEADER: [&str; 9] =
    ["workload", "threads", "subject", "measure", "value", "lower quartile", "upper quartile", "samples", "calm %"];

/// The one in the middle, after sorting them.
pub fn median(values: &mut [f64]) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values[(values.len() - 1) / 2]
}

impl Record {
    /// A figure that was taken once.
    pub fn once(workload: &str, threads: usize, subject: &str, measure: &str, value: f64) -> Self {
        Self::median(workload, threads, subject, measure, &mut [value])
    }

    /// The median of some.
    pub fn median(workload: &str, threads: usize, subject: &str, measure: &str, values: &mut [f64]) -> Self {
        // This sorts them.
        let value = median(values);
        let at = |quarters: usize| values[(values.len() - 1) * quarters / 4];
        Self {
            workload: workload.to_owned(),
            threads,
            subject: subject.to_owned(),
            measure: measure.to_owned(),
            value,
            quartiles: [at(1), at(3)],
            samples: values.len(),
            calm: 100,
        }
    }

    fn fields(&self) -> [String; HEADER.len()] {
        [
            self.workload.clone(),
            self.threads.to_string(),
            self.subject.clone(),
            self.measure.clone(),
            self.value.to_string(),
            self.quartiles[0].to_string(),
            self.quartiles[1].to_string(),
            self.samples.to_string(),
            self.calm.to_string(),
        ]
    }

    fn parse(fields: &csv::StringRecord) -> Result<Self, Box<dyn Error>> {
        let text = |at: usize| fields.get(at).ok_or("a field is missing");
        Ok(Self {
            workload: text(0)?.to_owned(),
            threads: text(1)?.parse()?,
            subject: text(2)?.to_owned(),
            measure: text(3)?.to_owned(),
            value: text(4)?.parse()?,
            quartiles: [text(5)?.parse()?, text(6)?.parse()?],
            samples: text(7)?.parse()?,
            calm: text(8)?.parse()?,
        })
    }
}

/// The figures of one question.
#[derive(Clone, Debug, Default)]
pub struct Records(pub Vec<Record>);

impl Records {
    pub fn save(&self, form: Form, question: &str) -> Result<(), Box<dyn Error>> {
        fs::create_dir_all(form.directory())?;
        let path = form.directory().join(question).with_extension("csv");
        let mut writer = csv::Writer::from_path(&path)?;
        writer.write_record(HEADER)?;
        for record in &self.0 {
            writer.write_record(record.fields())?;
        }
        writer.flush()?;
        eprintln!("{} figures in {}", self.0.len(), path.display());
        Ok(())
    }

    pub fn load(form: Form, question: &str) -> Result<Self, Box<dyn Error>> {
        let path = form.directory().join(question).with_extension("csv");
        let complain = |error: &dyn Error| format!("{}: {error}; `benches/run` makes it", path.display());
        let mut reader = csv::Reader::from_path(&path).map_err(|error| complain(&error))?;
        let records = reader.records().map(|fields| Record::parse(&fields?));
        Ok(Self(records.collect::<Result<_, _>>().map_err(|error| complain(&*error))?))
    }

    pub fn find(&self, workload: &str, threads: usize, subject: &str, measure: &str) -> Option<&Record> {
        self.0.iter().find(|record| {
            record.workload == workload
                && record.threads == threads
                && record.subject == subject
                && record.measure == measure
        })
    }

    pub fn value(&self, workload: &str, threads: usize, subject: &str, measure: &str) -> Option<f64> {
        self.find(workload, threads, subject, measure).map(|record| record.value)
    }

    /// The values of a field, each once, in the order in which they come.
    pub fn each<T: PartialEq>(&self, field: impl Fn(&Record) -> T) -> Vec<T> {
        let mut each = Vec::new();
        for record in &self.0 {
            let value = field(record);
            if !each.contains(&value) {
                each.push(value);
            }
        }
        each
    }

    /// Those of one workload.
    pub fn of(&self, workload: &str) -> Self {
        Self(self.0.iter().filter(|record| record.workload == workload).cloned().collect())
    }
}
