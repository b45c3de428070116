// Simulates a disk: it reads and writes real files (`file::in_memory` needs no disk), at times of a virtual clock and
// with random faults that depend on a seed. Never blocks or sleeps.
#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "storage/queue/io_queue.hpp"

namespace troupe::storage {

/// Speed and faults of the simulated disk. Each fault is a probability for one system call; the probabilities are
/// applied in the order of the members.
struct disk_model {
  uint64_t seed = 1;
  double bytes_per_second = 1e9;       ///< bandwidth of the disk, which serves one transfer after the other
  int64_t latency_ns = 100'000;        ///< latency that is added to each transfer, independently of others
  int64_t jitter_ns = 0;               ///< maximum random latency in addition, with which transfers may complete out of
                                       ///< order
  uint64_t free_bytes = ~uint64_t{0};  ///< space for growing files; a write beyond it is shortened, later ones fail
                                       ///< with ENOSPC
  double busy = 0;                     ///< probability of EAGAIN or EINTR
  double fail = 0;                     ///< probability of EIO without any byte transferred
  double torn = 0;                     ///< probability of a write that stores only some of its 512-byte sectors and
                                       ///< returns EIO
  double lost = 0;                     ///< probability of a write that stores nothing and returns success
  double cut = 0;                      ///< probability that a transfer of several 512-byte sectors transfers fewer of
                                       ///< them
};

class modelled_queue final : public io_queue {
 public:
  /// Returns the errors of `check(options)`, or `bad_input` for invalid probabilities, speeds or times.
  static core::result<std::unique_ptr<modelled_queue>> open(const io_queue_options& options, const disk_model& disk);
  ~modelled_queue() override;

  [[nodiscard]] std::string name() const override { return "modelled"; }

  /// Returns the time of the virtual clock in ns, which starts at 0. `poll` returns requests that have ended by then;
  /// `wait` advances the clock to the next end.
  [[nodiscard]] int64_t now_ns() const { return now_ns_; }
  void advance(int64_t ns);  ///< moves the virtual clock
  /// Returns the virtual time, in ns, at which the next system call ends, or -1 if none is running, for the event loop
  /// of a simulation.
  [[nodiscard]] int64_t next_ns() const;

  [[nodiscard]] uint64_t faults() const { return faults_; }  ///< number of injected faults so far
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
  int64_t idle_ns_ = 0;  // virtual time at which the disk has served all transfers requested so far
  uint64_t faults_ = 0;
  std::vector<operation> under_way_;
};

}  // namespace troupe::storage
