// Implements io_queue by io_uring: one ring, one system call per batch, memory and files registered if the kernel
// allows it. No other code depends on liburing.
#include "storage/queue/engines.hpp"

#include <fmt/format.h>
#include <liburing.h>
#include <sched.h>
#include <sys/resource.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace troupe::storage {

namespace {

// User data of the completion of a cancellation; all slot numbers are smaller.
constexpr uint64_t cancellation = ~uint64_t{0};

class uring_queue final : public io_queue {
 public:
  explicit uring_queue(const io_queue_options& options) : io_queue(options) { unsent_.reserve(options.depth); }

  ~uring_queue() override {
    if (!made_) return;
    finish();
    ::io_uring_queue_exit(&ring_);
  }

  core::result<void> start(const io_queue_options& options) {
    // The ring has one entry more than the depth, for a cancellation. With COOP_TASKRUN, newer kernels do not interrupt
    // the thread for completions; with TASKRUN_FLAG, `poll` detects pending completions without a system call.
    const unsigned entries = options.depth + 1;
    int why = -EINVAL;
#if defined(IORING_SETUP_COOP_TASKRUN) && defined(IORING_SETUP_TASKRUN_FLAG)
    why = ::io_uring_queue_init(entries, &ring_,
                                IORING_SETUP_CLAMP | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
#endif
    if (why == -EINVAL) why = ::io_uring_queue_init(entries, &ring_, 0);
    if (why < 0)
      return core::fail(core::error_kind::io,
                        fmt::format("io_uring: cannot create a ring of {} entries: {}", entries, refusal(-why)));
    made_ = true;
    if (event_descriptor() >= 0 && (why = ::io_uring_register_eventfd(&ring_, event_descriptor())) < 0)
      return core::fail(core::error_kind::io, "io_uring: cannot register an eventfd for completions: " + refusal(-why));
    register_pools(options.pools);
    files_on_ = ::io_uring_register_files_sparse(&ring_, registered_files_max) == 0;
    if (!files_on_) remark("io_uring: the kernel cannot register a table of files; using plain descriptors");
    return {};
  }

  [[nodiscard]] std::string name() const override { return "io_uring"; }

  bool keep(const file& on) override {
    if (!files_on_ || !on.is_open()) return false;
    if (index_of(on) >= 0) return true;
    const auto empty = std::find(files_.begin(), files_.end(), uint64_t{0});
    if (empty == files_.end()) return false;
    const int descriptor = on.descriptor();
    const auto index = static_cast<unsigned>(empty - files_.begin());
    if (::io_uring_register_files_update(&ring_, index, &descriptor, 1) != 1) return false;
    *empty = on.identity();
    return true;
  }

  void forget(const file& on) override {
    const int index = index_of(on);
    if (index < 0) return;
    const int none = -1;
    ::io_uring_register_files_update(&ring_, static_cast<unsigned>(index), &none, 1);
    files_[static_cast<size_t>(index)] = 0;
  }

 private:
  static std::string refusal(int errno_value) {
    std::string text = std::strerror(errno_value);
    if (errno_value == EPERM) text += " (a container's seccomp filter or kernel.io_uring_disabled)";
    if (errno_value == ENOSYS) text += " (the kernel has no io_uring)";
    return text;
  }

  void register_pools(const std::vector<std::span<std::byte>>& pools) {
    std::vector<iovec> pieces;
    uint64_t bytes = 0;
    for (const auto& pool : pools)
      for (size_t from = 0; from < pool.size(); from += registered_piece_bytes) {
        const size_t length = std::min<size_t>(registered_piece_bytes, pool.size() - from);
        pieces.push_back({pool.data() + from, length});
        bytes += length;
      }
    if (pieces.empty()) return;
    const int why = ::io_uring_register_buffers(&ring_, pieces.data(), static_cast<unsigned>(pieces.size()));
    if (why == 0) {
      pieces_ = std::move(pieces);
      return;
    }
    rlimit locked{};
    ::getrlimit(RLIMIT_MEMLOCK, &locked);
    remark(fmt::format(
        "io_uring: cannot register {} bytes of memory: {}{}; using the memory unregistered", bytes, std::strerror(-why),
        why == -ENOMEM ? fmt::format("; RLIMIT_MEMLOCK is {}, raise it with `ulimit -l`", locked.rlim_cur) : ""));
  }

  [[nodiscard]] int index_of(const file& on) const {
    const auto found = std::find(files_.begin(), files_.end(), on.identity());
    return found == files_.end() ? -1 : static_cast<int>(found - files_.begin());
  }

  // Returns the index of the registered piece that contains all of `part`, or -1.
  [[nodiscard]] int piece_of(std::span<std::byte> part) const {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      const auto* base = static_cast<const std::byte*>(pieces_[i].iov_base);
      if (part.data() >= base && part.data() + part.size() <= base + pieces_[i].iov_len) return static_cast<int>(i);
    }
    return -1;
  }

  void begin(uint32_t slot) override {
    if (broken_ != 0) {
      refused_.push_back({slot, broken_});
      signal_event();
      return;
    }
    // The entry is never null, because the ring has an entry for every slot and one for the cancellation.
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    const auto& request = at(slot).request();
    const auto part = at(slot).rest();
    const auto length = static_cast<unsigned>(part.size());
    const uint64_t offset = at(slot).rest_offset();
    const int index = files_on_ ? index_of(request.on) : -1;
    const int on = index >= 0 ? index : request.on.descriptor();
    const int piece = piece_of(part);
    const bool reads = request.kind == io_kind::read;
    if (reads && piece >= 0)
      ::io_uring_prep_read_fixed(entry, on, part.data(), length, offset, piece);
    else if (reads)
      ::io_uring_prep_read(entry, on, part.data(), length, offset);
    else if (piece >= 0)
      ::io_uring_prep_write_fixed(entry, on, part.data(), length, offset, piece);
    else
      ::io_uring_prep_write(entry, on, part.data(), length, offset);
    if (index >= 0) entry->flags |= IOSQE_FIXED_FILE;
    ::io_uring_sqe_set_data64(entry, slot);
    unsent_.push_back(slot);
  }

  void flush() override {
    while (!unsent_.empty() && broken_ == 0) {
      const int sent = ::io_uring_submit(&ring_);
      if (sent > 0) {
        const auto over = std::min(unsent_.size(), static_cast<size_t>(sent));
        unsent_.erase(unsent_.begin(), unsent_.begin() + static_cast<ptrdiff_t>(over));
        refusals_ = 0;
        continue;
      }
      // The kernel lacks memory or completion entries at the moment; requests in flight will free some, and `reap`
      // tries again.
      const bool passing = sent == 0 || sent == -EAGAIN || sent == -EBUSY || sent == -EINTR;
      if (passing && ++refusals_ <= interruptions_max) return;
      broken_ = sent == 0 ? -EAGAIN : sent;
      // An interruption would be retried, but this ring accepts no more submissions.
      if (broken_ == -EAGAIN || broken_ == -EINTR) broken_ = -EIO;
      for (const uint64_t what : unsent_)
        if (what != cancellation) refused_.push_back({static_cast<uint32_t>(what), broken_});
      unsent_.clear();
      signal_event();
    }
  }

  void reap(bool block, std::vector<answer>& answers) override {
    for (;;) {
      flush();
      answers.insert(answers.end(), refused_.begin(), refused_.end());
      refused_.clear();
      std::array<io_uring_cqe*, 64> batch{};
      while (const unsigned got = ::io_uring_peek_batch_cqe(&ring_, batch.data(), batch.size())) {
        for (unsigned i = 0; i < got; ++i)
          if (batch[i]->user_data != cancellation)
            answers.push_back({static_cast<uint32_t>(batch[i]->user_data), batch[i]->res});
        ::io_uring_cq_advance(&ring_, got);
      }
      if (!block || !answers.empty()) return;
      if (in_flight() <= unsent_.size()) {
        ::sched_yield();  // the kernel accepted no request yet, so waiting for a completion would never end
        continue;
      }
      io_uring_cqe* first = nullptr;
      ::io_uring_wait_cqe(&ring_, &first);  // after an interruption the loop checks again
    }
  }

  void stop_all() override {
#ifdef IORING_ASYNC_CANCEL_ANY
    flush();
    if (broken_ != 0 || !unsent_.empty()) return;
    io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
    if (entry == nullptr) return;
    ::io_uring_prep_cancel64(entry, 0, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
    ::io_uring_sqe_set_data64(entry, cancellation);
    unsent_.push_back(cancellation);
    flush();  // before Linux 5.19 the cancellation is refused, and requests end normally
#endif
  }

  io_uring ring_{};
  bool made_ = false;
  bool files_on_ = false;
  int broken_ = 0;  // negative errno if the kernel accepts no more submissions; else 0
  unsigned refusals_ = 0;
  std::vector<uint64_t> unsent_;  // slots, and possibly a cancellation, that are prepared but not submitted
  std::vector<answer> refused_;
  std::vector<iovec> pieces_;
  std::array<uint64_t, registered_files_max> files_{};  // identity of each registered file; 0: free
};

}  // namespace

core::result<std::unique_ptr<io_queue>> open_uring_queue(const io_queue_options& options) {
  TROUPE_TRY(check(options));
  auto queue = std::make_unique<uring_queue>(options);
  TROUPE_TRY(queue->start(options));
  return queue;
}

}  // namespace troupe::storage
