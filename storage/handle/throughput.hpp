// How fast a folder's disk is with a given way of asking: block size, requests in flight, rings, submission. Owns the
// scratch file, which has lost its name before the first byte is written, so that no end of the process leaves one.
// Which settings are tried and what is said about them is the caller's.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/memory/huge_memory.hpp"
#include "storage/queue/file.hpp"
#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

inline constexpr unsigned throughput_threads_max = 64;  ///< rings at work on disjoint parts of the file
/// Left free on the file system beside the scratch file.
inline constexpr uint64_t throughput_spare_bytes = uint64_t{64} << 20;

struct throughput_setting {
  uint64_t block_bytes = uint64_t{1} << 20;  ///< of one request
  unsigned queue_depth = 32;                 ///< requests in flight in each ring
  unsigned threads = 1;                      ///< rings, each with a thread and a part of the file of its own
  bool single_submit = false;                ///< one system call for each request instead of one for several
  bool overlap_events = true;                ///< replaces what is over at once; else submits when all is over
  bool registered = true;                    ///< buffers and file registered with the ring
  queue_engine engine = queue_engine::best;
};

/// Refuses what is outside its limits: `bad_input`.
core::result<void> check(const throughput_setting& s);

/// Memory that a setting's requests lie in.
uint64_t memory_bytes(const throughput_setting& s);

struct throughput_options {
  std::filesystem::path folder;  ///< an existing one
  uint64_t bytes = uint64_t{512} << 20;
  bool buffered = false;         ///< through the page cache even where direct I/O works
  std::function<bool()> stop{};  ///< asked between requests, by several threads; true ends the work as `stopped`
};

class throughput_probe {
 public:
  /// Makes the scratch file and writes it once with bytes that no device can shrink.
  /// Errors  `bad_input` for a folder that is none or not writable, or a size of 0; `no_space` with the bytes wanted
  /// and
  ///         free; `stopped`; `io`.
  static core::result<throughput_probe> open(const throughput_options& options);

  /// One sequential pass over the file: bytes per second. Direct transfers are timed to the last completion, buffered
  /// writes until they are on the disk; buffered reads begin with the file out of the page cache, where that can be
  /// had. Errors  `bad_input` for a setting outside its limits or a block that is no multiple of what direct I/O wants;
  ///         `limit` where its memory would be more than the file; `stopped`; `io`.
  core::result<double> measure(io_kind kind, const throughput_setting& setting);

  [[nodiscard]] uint64_t bytes() const { return options_.bytes; }
  [[nodiscard]] file_mode mode() const { return on_.mode(); }
  /// Of the last pass: `io_uring` or `threads`.
  [[nodiscard]] const std::string& engine() const { return engine_; }
  /// Wanted features that could not be had, each once: direct I/O, io_uring, registered memory.
  [[nodiscard]] const std::vector<std::string>& remarks() const { return remarks_; }

 private:
  core::result<void> fill();
  core::result<void> fits(const throughput_setting& s) const;
  void remark(const std::string& sentence);

  throughput_options options_;
  file on_;
  huge_memory memory_;
  std::string engine_;
  std::vector<std::string> remarks_;
};

}  // namespace troupe::storage
