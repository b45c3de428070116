// Measures the throughput of a folder's disk with given settings: block size, requests in flight, rings, submission.
// Owns the scratch file, whose name is removed before the first byte is written, so that no file remains however the
// process ends. The caller chooses the settings and reports the results.
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

inline constexpr unsigned throughput_threads_max = 64;  ///< largest number of rings, each with its own thread
/// Number of bytes that must stay free on the file system in addition to the scratch file.
inline constexpr uint64_t throughput_spare_bytes = uint64_t{64} << 20;

struct throughput_setting {
  uint64_t block_bytes = uint64_t{1} << 20;  ///< size of one request in bytes
  unsigned queue_depth = 32;                 ///< largest number of requests in flight in each ring
  unsigned threads = 1;                      ///< number of rings, each with its own thread and part of the file
  bool single_submit = false;                ///< true: one system call for each request; false: one for several
  /// True: a new request starts when a request is finished; false: new requests start when all are finished.
  bool overlap_events = true;
  bool registered = true;  ///< true: buffers and file are registered with the ring
  queue_engine engine = queue_engine::best;
};

/// Returns `bad_input` if a value of the setting is outside its limits.
core::result<void> check(const throughput_setting& s);

/// Returns the size of the memory, in bytes, that the requests in flight use with this setting.
uint64_t memory_bytes(const throughput_setting& s);

struct throughput_options {
  std::filesystem::path folder;  ///< folder of the scratch file; must exist
  uint64_t bytes = uint64_t{512} << 20;
  bool buffered = false;         ///< true: uses the page cache even if direct I/O works
  std::function<bool()> stop{};  ///< called between requests by several threads; true: stop (`stopped`)
};

class throughput_probe {
 public:
  /// Creates the scratch file and fills it once with bytes that no device can compress. Errors: `bad_input` for a
  /// folder that does not exist or is not writable, or a size of 0; `no_space` with the required and the free bytes;
  /// `stopped`; `io`.
  static core::result<throughput_probe> open(const throughput_options& options);

  /// Makes one sequential pass over the file and returns bytes per second. Direct transfers are timed to the last
  /// completion, buffered writes until they are on the disk; before buffered reads the file is removed from the page
  /// cache, if possible. Errors: `bad_input` for a setting outside its limits or a block size that is no multiple of
  /// the alignment of direct I/O; `limit` if the requests in flight would exceed the file; `stopped`; `io`.
  core::result<double> measure(io_kind kind, const throughput_setting& setting);

  [[nodiscard]] uint64_t bytes() const { return options_.bytes; }
  [[nodiscard]] file_mode mode() const { return on_.mode(); }
  /// Returns the engine of the last pass: `io_uring` or `threads`.
  [[nodiscard]] const std::string& engine() const { return engine_; }
  /// Returns one sentence for each requested feature that is not available (direct I/O, io_uring, registered memory),
  /// and one if the file system is in memory.
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
