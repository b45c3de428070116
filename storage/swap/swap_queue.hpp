// A rank's way to its swap files: requests of any size, cut into blocks, a bounded number of them in flight, each page
// compared with its digest. Owns the cutting, the credits, the retries and the completion as a whole; how bytes move is
// `io_queue.hpp`'s, what a page must contain `swap_file.hpp`'s (the retry policy is written there).
//
// A queue belongs to one thread, and to one that lasts: with io_uring the kernel posts completions when the thread that
// submitted enters the kernel, so a thread that computes for long between two calls learns of them late, and one that
// ends loses what it submitted. An actor that owns a queue is therefore detached (a thread of its own) and waits like
// this: it hands `event_descriptor()` to an `event_watch` (`event_watch.hpp`) whose callback mails the actor one
// message; the handler calls `poll`, then `event_watch::resume`. A thread without a mailbox just calls
// `wait`.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/error.hpp"
#include "storage/queue/io_queue.hpp"
#include "storage/swap/swap_file.hpp"

namespace troupe::storage {

inline constexpr unsigned swap_requests_max = 65536;                 ///< requests not completed, of one queue
inline constexpr size_t swap_parts_max = 65536;                      ///< parts of one request
inline constexpr uint64_t swap_block_bytes_max = request_bytes_max;  ///< largest block

struct swap_queue_options {
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;                       ///< blocks in flight
  uint64_t block_bytes = uint64_t{1} << 20;  ///< a multiple of the page
  bool single_submit = false;                ///< one submission for each block, not one for all that there is room for
  bool overlap_events = true;                ///< false: submit up to `depth`, wait for all of them, repeat
  unsigned threads = 4;                      ///< of the thread pool, where the engine is one
  std::vector<std::span<std::byte>> pools;   ///< registered with the kernel; outlive the queue
  /// Makes the queue below; `make_queue` where empty. For the modelled disk.
  std::function<core::result<std::unique_ptr<io_queue>>(const io_queue_options&)> make;
};

/// A range of a file to or from memory; offset, length and address are multiples of `swap_page_bytes`.
struct swap_part {
  std::shared_ptr<swap_file> on;
  uint64_t offset = 0;
  std::span<std::byte> memory;  ///< filled by a read; a write only looks. Untouched by the asker until the completion
};

/// Parts that are over together.
struct swap_request {
  io_kind kind = io_kind::read;
  std::vector<swap_part> parts;
  uint64_t token = 0;  ///< the asker's own, comes back with the completion
};

struct swap_completion {
  uint64_t token = 0;
  uint64_t bytes = 0;                ///< of the blocks that went well; all of the request's where there is no error
  std::optional<core::error> error;  ///< the first one: `io`, `no_space` with file and offset; `stopped`
};

struct swap_counters {
  uint64_t bytes_read = 0, bytes_written = 0;    ///< of blocks that went well
  uint64_t requests = 0, failed = 0;             ///< completed; of these with an error
  uint64_t blocks = 0, retries = 0;              ///< submitted, the retries too; retries
  uint64_t submissions = 0;                      ///< to the queue below
  uint64_t digest_pages = 0, digest_misses = 0;  ///< computed; found to differ
  int64_t digest_ns = 0;                         ///< spent on them, on the queue's thread
  unsigned most_in_flight = 0;                   ///< blocks at once
};

class swap_queue {
 public:
  /// Errors  `bad_input` for a depth, a number of threads or a block size outside its limits; those of the engine.
  static core::result<std::unique_ptr<swap_queue>> open(const swap_queue_options& options);

  swap_queue(const swap_queue&) = delete;
  swap_queue& operator=(const swap_queue&) = delete;
  /// Cancels and waits for what is in flight: no memory is touched afterwards. What waits is dropped.
  ~swap_queue();

  /// Begins the request; its blocks wait inside while `depth` of them are in flight. Requests begin in the order they
  /// were submitted in and end in any. Errors, with nothing begun: `bad_input` for no parts, no memory, what is not a
  /// multiple of the page or not in its file; `limit` beyond `swap_requests_max` or `swap_parts_max`.
  core::result<void> submit(swap_request request);

  /// Appends the requests that are over, submits what waits; gives how many. Never blocks on the device.
  size_t poll(std::vector<swap_completion>& out);

  /// As `poll`, but blocks until at least one request is over. At once 0 when none is pending.
  size_t wait(std::vector<swap_completion>& out);

  void drain(std::vector<swap_completion>& out);  ///< waits for all

  /// Every request still completes, as `stopped` where it was not over yet; what a stopped write leaves is unknown.
  void cancel_all();

  [[nodiscard]] int event_descriptor() const { return queue_->event_descriptor(); }  ///< as that of `io_queue`
  [[nodiscard]] unsigned pending() const { return pending_; }                        ///< requests not completed
  [[nodiscard]] const std::vector<std::string>& remarks() const { return queue_->remarks(); }
  [[nodiscard]] std::string name() const { return queue_->name(); }  ///< `io_uring`, `threads`, `modelled`
  [[nodiscard]] const swap_counters& counters() const { return counters_; }
  [[nodiscard]] io_queue& below() { return *queue_; }  ///< for the clock of a modelled disk

 private:
  struct under_way {  // a request not completed; blocks refer to it by index
    swap_request what;
    size_t part = 0;      // the next block begins here
    uint64_t inside = 0;  // bytes into that part
    unsigned in_flight = 0, to_retry = 0;
    uint64_t done_bytes = 0;
    std::optional<core::error> error;
  };
  struct block {
    uint32_t of = 0, part = 0;
    uint64_t inside = 0, length = 0;
    unsigned tries = 0;
  };

  swap_queue(const swap_queue_options& options, std::unique_ptr<io_queue> queue);
  static core::result<void> check(const swap_request& request);
  void keep(const swap_request& request);
  void pump();
  bool next_block(block& out);
  void begin(const block& what);
  void send();
  void take_ended();
  void account(const block& b, const io_completion& end);
  [[nodiscard]] std::optional<core::error> judge(const block& b, const io_completion& end);
  void give_up(uint32_t of, const core::error& why);
  void settle(uint32_t of);
  void tell_of_errors() const;
  size_t hand_out(std::vector<swap_completion>& out);

  swap_queue_options options_;
  std::vector<under_way> requests_;
  std::vector<uint32_t> free_requests_;
  std::deque<uint32_t> waiting_;  // requests with blocks not begun
  std::vector<block> blocks_;     // one for each credit
  std::vector<uint32_t> free_blocks_;
  std::vector<block> retries_;
  std::vector<io_request> batch_;
  std::vector<io_completion> ended_;
  std::vector<block> ended_blocks_;  // of `ended_`
  std::vector<swap_completion> over_;
  std::vector<uint64_t> seen_files_;  // identities that the queue below was asked to keep
  unsigned pending_ = 0;
  swap_counters counters_;
  std::unique_ptr<io_queue> queue_;  // ends first
};

}  // namespace troupe::storage
