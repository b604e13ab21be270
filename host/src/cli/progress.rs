//! Progress on stderr: bars on a terminal, one line a phase elsewhere, nothing beside `--json`.

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::{self, IsTerminal, Write};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Where progress goes.
pub struct Progress {
    sink: Sink,
}

enum Sink {
    Bars(MultiProgress),
    Lines(Mutex<Box<dyn Write + Send>>),
    Silent,
}

impl Progress {
    /// Progress for a command that prints its result for people, or as one JSON object if `json`.
    ///
    /// Bars if stderr is a terminal. Otherwise lines, or with `json` nothing: then stderr most likely ends up in
    /// somebody's log.
    pub fn on_stderr(json: bool) -> Self {
        let sink = match (io::stderr().is_terminal(), json) {
            (true, _) => Sink::Bars(MultiProgress::with_draw_target(ProgressDrawTarget::stderr())),
            (false, false) => Sink::Lines(Mutex::new(Box::new(io::stderr()))),
            (false, true) => Sink::Silent,
        };
        Self { sink }
    }

    /// Progress as lines of text to `writer`.
    pub fn lines(writer: impl Write + Send + 'static) -> Self {
        Self { sink: Sink::Lines(Mutex::new(Box::new(writer))) }
    }

    /// No progress.
    pub fn silent() -> Self {
        Self { sink: Sink::Silent }
    }

    /// Says one line that belongs to no phase. `text` must already be fit for a terminal.
    pub fn note(&self, text: &str) {
        // Progress is a courtesy: a closed stderr must not stop a round.
        match &self.sink {
            Sink::Bars(bars) => {
                let _ = bars.println(text);
            }
            Sink::Lines(writer) => {
                if let Ok(mut writer) = writer.lock() {
                    let _ = writeln!(writer, "{text}");
                }
            }
            Sink::Silent => {}
        }
    }

    /// Begins a phase of `steps` steps. Its clock starts now.
    pub fn phase(&self, name: &'static str, steps: u64) -> Phase<'_> {
        let bar = match &self.sink {
            Sink::Bars(bars) => {
                let bar = bars.add(ProgressBar::new(steps).with_prefix(name).with_style(bar_style()));
                bar.enable_steady_tick(Duration::from_millis(100));
                Some(bar)
            }
            _ => None,
        };
        Phase { progress: self, name, steps, done: AtomicU64::new(0), bar, started: Instant::now() }
    }
}

fn bar_style() -> ProgressStyle {
    ProgressStyle::with_template("{prefix:<24} {bar:32} {pos}/{len}  {elapsed_precise}")
        .expect("the template is a constant that the tests draw")
}

/// One phase in progress. Threads may share it.
pub struct Phase<'a> {
    progress: &'a Progress,
    name: &'static str,
    steps: u64,
    done: AtomicU64,
    bar: Option<ProgressBar>,
    started: Instant,
}

impl Phase<'_> {
    /// Counts `steps` more steps as done.
    pub fn advance(&self, steps: u64) {
        self.done.fetch_add(steps, Ordering::Relaxed);
        if let Some(bar) = &self.bar {
            bar.inc(steps);
        }
    }

    /// Ends the phase. Returns how long it took.
    pub fn finish(self) -> Duration {
        let elapsed = self.started.elapsed();
        // A bar goes away again: the result's own table has the time.
        match &self.bar {
            Some(bar) => bar.finish_and_clear(),
            None => self.progress.note(&format!(
                "{:<24} {}/{}  {:.3} s",
                self.name,
                self.done.load(Ordering::Relaxed),
                self.steps,
                elapsed.as_secs_f64()
            )),
        }
        elapsed
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().expect("no writer panics").write(bytes)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_phase_counts_the_steps_of_all_threads_in_one_line() {
        let written = Shared::default();
        let progress = Progress::lines(written.clone());
        let phase = progress.phase("collect", 40);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| (0..10).for_each(|_| phase.advance(1)));
            }
        });
        let elapsed = phase.finish();
        let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
        assert_eq!(text, format!("{:<24} 40/40  {:.3} s\n", "collect", elapsed.as_secs_f64()));
    }

    #[test]
    fn a_closed_stderr_stops_nothing() {
        struct Closed;
        impl Write for Closed {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
        }
        let progress = Progress::lines(Closed);
        progress.note("x");
        progress.phase("collect", 1).finish();
    }

    #[test]
    fn bars_can_be_drawn_without_a_terminal() {
        let bars = MultiProgress::with_draw_target(ProgressDrawTarget::hidden());
        let progress = Progress { sink: Sink::Bars(bars) };
        let phase = progress.phase("collect", 2);
        phase.advance(2);
        assert_eq!(phase.bar.as_ref().map(ProgressBar::position), Some(2));
        phase.finish();
    }
}
