// Simulates a disk: bytes are read from and written to real files (`file::in_memory` needs no disk), a virtual clock
// determines when, and a seed determines which faults occur. Never blocks or sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Speed and faults of the simulated disk. Odds apply to one system call, from 0 to 1, and are drawn in the order of
/// the members.
struct disk_model {
  uint64_t seed = 1;
  double bytes_per_second = 1e9;       ///< the disk serves one transfer after the other
  int64_t latency_ns = 100'000;        ///< added to each transfer, independently of others
  int64_t jitter_ns = 0;               ///< up to this much more latency: completions overtake each other
  uint64_t free_bytes = ~uint64_t{0};  ///< for files that grow; writes beyond it are cut, then fail (ENOSPC)
  double busy = 0;                     ///< odds of EAGAIN or EINTR
  double fail = 0;                     ///< odds of EIO with nothing transferred
  double torn = 0;  ///< odds of a write that ends with EIO after some of its 512-byte sectors were written
  double lost = 0;  ///< odds of a write that is reported as done although nothing was written
  double cut = 0;   ///< odds of a short transfer: fewer whole 512-byte sectors, if it has several
};

class modelled_queue final : public io_queue {
 public:
  /// Errors: those of `check(options)`; `bad_input` for invalid odds, speeds or times.
  static core::result<std::unique_ptr<modelled_queue>> open(const io_queue_options& options, const disk_model& disk);
  ~modelled_queue() override;

  [[nodiscard]] std::string name() const override { return "modelled"; }

  /// The virtual clock in ns, from 0. `poll` returns requests that are over by now; `wait` moves the clock to the next
  /// end.
  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  void advance(int64_t ns);  ///< moves the virtual clock
  /// Time at which the next system call ends, in ns; -1 if none is under way. For the event loop of a simulation.
  [[nodiscard]] int64_t next_ns() const;

  [[nodiscard]] uint64_t faults() const { return faults_; }  ///< number of faults so far
  [[nodiscard]] uint64_t free_bytes() const { return disk_.free_bytes; }

 private:
  struct operation {
    uint32_t slot;
    int64_t start_ns, end_ns;
    bool stopped = false;
  };

  modelled_queue(const io_queue_options& options, const disk_model& disk);
  void begin(uint32_t slot) override;
  void flush() override {}
  void reap(bool block, std::vector<answer>& answers) override;
  void stop_all() override;
  bool happens(double odds);
  int64_t carry_out(const operation& o);
  int64_t move_bytes(const transfer& what, uint64_t from, uint64_t length) const;

  disk_model disk_;
  std::mt19937_64 random_;
  int64_t now_ns_ = 0;
  int64_t idle_ns_ = 0;  // when the disk has moved all bytes requested so far
  uint64_t faults_ = 0;
  std::vector<operation> under_way_;
};

}  // namespace troupe::storage
