// Reads and writes a rank's swap files: divides requests of any size into blocks, keeps a bounded number of blocks in
// flight, and compares each page with its digest. Owns the division, the credits (free places for blocks), the retries
// and the completion of requests; `io_queue.hpp` moves the bytes, and `swap_file.hpp` stores the digests and documents
// the retry policy.
//
// A queue is used by one thread, which must last as long as the queue: with io_uring the kernel posts completions when
// the submitting thread enters the kernel, so a thread that computes for long between two calls receives completions
// late, and a thread that ends loses its requests. An actor that owns a queue is therefore detached (it has a thread of
// its own) and waits like this: it passes `event_descriptor()` to an `event_watch` (`event_watch.hpp`) whose callback
// sends the actor one message; the handler calls `poll`, then `event_watch::resume`. A thread without a mailbox calls
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
#include "storage/queue/file.hpp"
#include "storage/queue/io_queue.hpp"
#include "storage/swap/swap_file.hpp"

namespace troupe::storage {

inline constexpr unsigned swap_requests_max = 65536;                 ///< largest number of incomplete requests
inline constexpr size_t swap_parts_max = 65536;                      ///< largest number of parts of one request
inline constexpr uint64_t swap_block_bytes_max = request_bytes_max;  ///< largest size of a block

struct swap_queue_options {
  queue_engine engine = queue_engine::best;
  unsigned depth = 32;                       ///< largest number of blocks in flight
  uint64_t block_bytes = uint64_t{1} << 20;  ///< size of a block, a multiple of the page size
  /// True: one submission for each block; false: one submission for several blocks.
  bool single_submit = false;
  bool overlap_events = true;               ///< false: new blocks start only when all blocks have ended
  unsigned threads = 4;                     ///< number of threads of the engine `threads`
  std::vector<std::span<std::byte>> pools;  ///< memory to register with the kernel; outlives the queue
  /// Function that makes the underlying queue, such as a modelled disk; empty: `make_queue`.
  std::function<core::result<std::unique_ptr<io_queue>>(const io_queue_options&)> make;
};

/// A range of a swap file and the memory to transfer it to or from. Offset, length and address must be multiples of
/// `swap_page_bytes`.
struct swap_part {
  std::shared_ptr<swap_file> on;
  uint64_t offset = 0;
  /// Memory that a read fills or whose contents a write stores; the caller must not access it until the completion.
  std::span<std::byte> memory;
};

/// A request to read or write several parts, which complete together.
struct swap_request {
  io_kind kind = io_kind::read;
  std::vector<swap_part> parts;
  uint64_t token = 0;  ///< number that the caller chooses; the completion contains it
};

struct swap_completion {
  uint64_t token = 0;
  uint64_t bytes = 0;                ///< number of bytes of successful blocks; without an error, of all blocks
  std::optional<core::error> error;  ///< first error: `io` or `no_space`, with file and offset; `stopped`
};

struct swap_counters {
  uint64_t bytes_read = 0, bytes_written = 0;    ///< numbers of bytes of successful blocks
  uint64_t requests = 0, failed = 0;             ///< numbers of completed requests, and of failed ones among them
  uint64_t blocks = 0, retries = 0;              ///< numbers of submitted blocks, retries included, and of retries
  uint64_t submissions = 0;                      ///< number of submissions to the underlying queue
  uint64_t digest_pages = 0, digest_misses = 0;  ///< numbers of computed digests, and of blocks with a wrong one
  int64_t digest_ns = 0;                         ///< time spent on digests by the queue's thread
  unsigned most_in_flight = 0;                   ///< largest number of blocks in flight so far
};

class swap_queue {
 public:
  /// Opens a queue. Errors: `bad_input` for a depth, a number of threads or a block size outside its limits; those of
  /// the engine.
  static core::result<std::unique_ptr<swap_queue>> open(const swap_queue_options& options);

  swap_queue(const swap_queue&) = delete;
  swap_queue& operator=(const swap_queue&) = delete;
  /// Cancels blocks in flight and waits for them, so that no memory is accessed afterwards. Drops waiting requests.
  ~swap_queue();

  /// Begins the request; its blocks wait in the queue while `depth` of them are in flight. Requests begin in the order
  /// of submission and end in any order. Errors, with nothing begun: `bad_input` for no parts, no memory, a range that
  /// is no multiple of the page or not in its file; `limit` beyond `swap_requests_max` or `swap_parts_max`.
  core::result<void> submit(swap_request request);

  /// Appends completed requests to `out` and submits waiting blocks; returns the number appended. Never blocks on the
  /// device.
  size_t poll(std::vector<swap_completion>& out);

  /// Appends completed requests like `poll`, but blocks until at least one is complete. Returns 0 at once if none is
  /// pending.
  size_t wait(std::vector<swap_completion>& out);

  void drain(std::vector<swap_completion>& out);  ///< waits until all requests are complete

  /// Cancels all requests. Each request still completes, an unfinished one with `stopped`; the content of the file
  /// after a stopped write is unknown.
  void cancel_all();

  /// Returns the event descriptor of the underlying `io_queue`.
  [[nodiscard]] int event_descriptor() const { return queue_->event_descriptor(); }
  [[nodiscard]] unsigned pending() const { return pending_; }  ///< returns the number of incomplete requests
  [[nodiscard]] const std::vector<std::string>& remarks() const { return queue_->remarks(); }
  [[nodiscard]] std::string name() const { return queue_->name(); }  ///< returns `io_uring`, `threads` or `modelled`
  [[nodiscard]] const swap_counters& counters() const { return counters_; }
  [[nodiscard]] io_queue& below() { return *queue_; }  ///< returns the underlying queue, for tests with a modelled disk

 private:
  struct under_way {  // an incomplete request; blocks refer to it by its index in requests_
    swap_request what;
    size_t part = 0;      // index of the part in which the next block begins
    uint64_t inside = 0;  // offset in that part of the next block, in bytes
    unsigned in_flight = 0, to_retry = 0;
    uint64_t done_bytes = 0;
    std::optional<core::error> error;
  };
  struct block {
    uint32_t of = 0, part = 0;
    uint64_t inside = 0, length = 0;
    unsigned tries = 0;
  };

  struct seen_file {  // a swap file that this queue has tried to register with the underlying queue (io_queue::keep)
    uint64_t identity = 0;
    std::weak_ptr<swap_file> of;
    file registered;  // refers to a file only if the queue has registered it
  };

  swap_queue(const swap_queue_options& options, std::unique_ptr<io_queue> queue);
  static core::result<void> check(const swap_request& request);
  void keep(const swap_request& request);
  void forget_closed();
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
  std::deque<uint32_t> waiting_;  // indices of requests that have blocks to begin
  std::vector<block> blocks_;     // [token of the underlying queue]: block in flight
  std::vector<uint32_t> free_blocks_;
  std::vector<block> retries_;
  std::vector<io_request> batch_;
  std::vector<io_completion> ended_;
  std::vector<block> ended_blocks_;  // block of each completion in `ended_`
  std::vector<swap_completion> over_;
  std::vector<seen_file> seen_files_;
  unsigned pending_ = 0;
  swap_counters counters_;
  std::unique_ptr<io_queue> queue_;  // last member, so that it is destroyed first and waits for blocks in flight
};

}  // namespace troupe::storage
