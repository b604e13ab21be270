//! What machine this is and what the process has used of it.

use std::fs;

/// The CPU's name as the kernel has it.
pub(super) fn cpu() -> String {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    field(&info, "model name").unwrap_or("unknown").to_owned()
}

/// Peak resident memory of this process in bytes, 0 where the kernel does not tell.
pub(super) fn peak_rss_bytes() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let kib = field(&status, "VmHWM").and_then(|value| value.split_whitespace().next()?.parse::<u64>().ok());
    kib.unwrap_or(0) * 1024
}

fn field<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines()
        .filter_map(|line| line.split_once(':'))
        .find(|(key, _)| key.trim() == name)
        .map(|(_, value)| value.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn peak_memory_covers_what_was_touched() {
        let before = peak_rss_bytes();
        let block = vec![1u8; 64 << 20];
        assert!(block.iter().all(|&byte| byte == 1));
        if before > 0 {
            assert!(peak_rss_bytes() >= 64 << 20);
        }
    }
}
