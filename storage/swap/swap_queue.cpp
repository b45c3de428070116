#include "storage/swap/swap_queue.hpp"

#include <fmt/format.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/clock.hpp"

namespace troupe::storage {

namespace {

// Number of digested bytes after which a batch is submitted. Blocks are digested before they are written, and the disk
// must not be idle while the blocks of a whole queue are digested.
constexpr uint64_t digest_ahead_bytes = uint64_t{4} << 20;

bool whole_pages(const swap_part& part) {
  return (part.offset | part.memory.size() | reinterpret_cast<uintptr_t>(part.memory.data())) % swap_page_bytes == 0;
}

const char* name_of(io_kind kind) { return kind == io_kind::read ? "read" : "write"; }

}  // namespace

core::result<std::unique_ptr<swap_queue>> swap_queue::open(const swap_queue_options& options) {
  if (options.block_bytes == 0 || options.block_bytes > swap_block_bytes_max ||
      options.block_bytes % swap_page_bytes != 0)
    return core::fail(core::error_kind::bad_input,
                      fmt::format("swap queue: wanted blocks of a multiple of {} bytes up to {}, got {}",
                                  swap_page_bytes, swap_block_bytes_max, options.block_bytes));
  io_queue_options below;
  below.engine = options.engine;
  below.depth = options.depth;
  below.threads = options.threads;
  below.pools = options.pools;
  TROUPE_ASSIGN(auto queue, options.make ? options.make(below) : make_queue(below));
  return std::unique_ptr<swap_queue>(new swap_queue(options, std::move(queue)));
}

swap_queue::swap_queue(const swap_queue_options& options, std::unique_ptr<io_queue> queue)
    : options_(options), blocks_(queue->depth()), queue_(std::move(queue)) {
  const auto depth = queue_->depth();
  free_blocks_.reserve(depth);
  for (uint32_t i = depth; i > 0; --i) free_blocks_.push_back(i - 1);
  retries_.reserve(depth);
  batch_.reserve(depth);
  ended_.reserve(depth);
  ended_blocks_.reserve(depth);
}

swap_queue::~swap_queue() = default;

core::result<void> swap_queue::check(const swap_request& request) {
  const auto refuse = [&](const swap_part* part, const std::string& why) {
    std::string where = "swap queue";
    if (part != nullptr && part->on) where = part->on->handle().path().string();
    std::string what = std::string(": ") + name_of(request.kind);
    if (part != nullptr) what += fmt::format(" of {} bytes at {}", part->memory.size(), part->offset);
    return core::fail(core::error_kind::bad_input, where + what + ": " + why);
  };
  if (request.parts.empty()) return refuse(nullptr, "wanted at least one part");
  if (request.parts.size() > swap_parts_max)
    return core::fail(core::error_kind::limit, fmt::format("swap queue: wanted at most {} parts in one request, got {}",
                                                           swap_parts_max, request.parts.size()));
  for (const auto& part : request.parts) {
    if (!part.on) return refuse(&part, "wanted a file");
    if (part.memory.empty()) return refuse(&part, "wanted at least one page");
    if (!whole_pages(part))
      return refuse(&part, fmt::format("wanted offset, length and address to be multiples of {}", swap_page_bytes));
    TROUPE_TRY(part.on->check_range(name_of(request.kind), part.offset, part.memory.size()));
  }
  return {};
}

core::result<void> swap_queue::submit(swap_request request) {
  TROUPE_TRY(check(request));
  if (pending_ >= swap_requests_max)
    return core::fail(core::error_kind::limit,
                      fmt::format("swap queue: wanted at most {} requests not completed", swap_requests_max));
  keep(request);
  if (free_requests_.empty()) {
    free_requests_.push_back(static_cast<uint32_t>(requests_.size()));
    requests_.emplace_back();
  }
  const uint32_t of = free_requests_.back();
  free_requests_.pop_back();
  requests_[of] = under_way{};
  requests_[of].what = std::move(request);
  waiting_.push_back(of);
  ++pending_;
  pump();
  return {};
}

void swap_queue::keep(const swap_request& request) {
  for (const auto& part : request.parts) {
    const file& on = part.on->handle();
    if (std::ranges::find(seen_files_, on.identity(), &seen_file::identity) != seen_files_.end()) continue;
    forget_closed();
    if (seen_files_.size() >= registered_files_max) return;
    seen_files_.push_back({on.identity(), part.on, queue_->keep(on) ? on : file()});
  }
}

// Unregisters swap files whose last owner has released them: otherwise the kernel would keep their descriptors open and
// their space on the disk allocated. A request in flight owns its files, so they stay registered.
void swap_queue::forget_closed() {
  std::erase_if(seen_files_, [&](const seen_file& x) {
    if (!x.of.expired()) return false;
    if (x.registered.is_open()) queue_->forget(x.registered);
    return true;
  });
}

bool swap_queue::next_block(block& out) {
  if (!retries_.empty()) {
    out = retries_.back();
    retries_.pop_back();
    --requests_[out.of].to_retry;
    return true;
  }
  if (waiting_.empty()) return false;
  auto& request = requests_[waiting_.front()];
  const auto& part = request.what.parts[request.part];
  out = {waiting_.front(), static_cast<uint32_t>(request.part), request.inside,
         std::min(options_.block_bytes, part.memory.size() - request.inside), 0};
  request.inside += out.length;
  if (request.inside < part.memory.size()) return true;
  request.inside = 0;
  if (++request.part == request.what.parts.size()) waiting_.pop_front();
  return true;
}

void swap_queue::pump() {
  // Without `overlap_events`, new blocks begin only when no block is in flight.
  if (!options_.overlap_events && queue_->in_flight() > 0) return;
  uint64_t digested = 0;
  block next;
  while (!free_blocks_.empty() && next_block(next)) {
    begin(next);
    const auto& request = requests_[next.of].what;
    if (request.kind == io_kind::write && request.parts[next.part].on->checksums()) digested += next.length;
    if (!options_.single_submit && digested < digest_ahead_bytes) continue;
    send();
    digested = 0;
  }
  send();
  counters_.most_in_flight = std::max(counters_.most_in_flight, queue_->in_flight());
}

void swap_queue::begin(const block& what) {
  auto& request = requests_[what.of];
  const auto& part = request.what.parts[what.part];
  const auto memory = part.memory.subspan(what.inside, what.length);
  const uint64_t offset = part.offset + what.inside;
  if (request.what.kind == io_kind::write && what.tries == 0 && part.on->checksums()) {
    const int64_t from = core::now_ns();
    part.on->take_digests(offset, memory);
    counters_.digest_ns += core::now_ns() - from;
    counters_.digest_pages += memory.size() / swap_page_bytes;
  }
  const uint32_t index = free_blocks_.back();
  free_blocks_.pop_back();
  blocks_[index] = what;
  ++blocks_[index].tries;
  ++request.in_flight;
  batch_.push_back({request.what.kind, part.on->handle(), offset, memory, index});
}

void swap_queue::send() {
  if (batch_.empty()) return;
  counters_.blocks += batch_.size();
  ++counters_.submissions;
  if (auto begun = queue_->submit(batch_); !begun) {
    // The underlying queue refused blocks that were checked and for which it had credits. Another attempt would fail
    // in the same way, so the blocks' requests end with the error.
    for (const auto& request : batch_) {
      block b = blocks_[request.token];
      b.tries = swap_tries_max;
      free_blocks_.push_back(static_cast<uint32_t>(request.token));
      account(b, {request.token, 0, begun.error()});
    }
    tell_of_errors();
  }
  batch_.clear();
}

// Returns the error of an ended block: the device's, a short read or a wrong digest; nullopt if the block succeeded.
std::optional<core::error> swap_queue::judge(const block& b, const io_completion& end) {
  if (end.error) return end.error;
  const auto& request = requests_[b.of].what;
  const auto& part = request.parts[b.part];
  const uint64_t offset = part.offset + b.inside;
  if (end.bytes < b.length) return part.on->ends_early(offset, b.length, end.bytes);
  if (request.kind == io_kind::write || !part.on->checksums()) return std::nullopt;
  const int64_t from = core::now_ns();
  const auto right = part.on->check_digests(offset, part.memory.subspan(b.inside, b.length));
  counters_.digest_ns += core::now_ns() - from;
  counters_.digest_pages += b.length / swap_page_bytes;
  if (right) return std::nullopt;
  ++counters_.digest_misses;
  return right.error();
}

// Processes ended blocks: first blocks with an error, so that their requests begin no further block; then submits new
// blocks, so that the disk is not idle; then checks the digests of blocks without an error.
void swap_queue::take_ended() {
  ended_blocks_.clear();
  for (const auto& end : ended_) {
    ended_blocks_.push_back(blocks_[end.token]);
    free_blocks_.push_back(static_cast<uint32_t>(end.token));
  }
  for (size_t i = 0; i < ended_.size(); ++i)
    if (ended_[i].error) account(ended_blocks_[i], ended_[i]);
  pump();
  for (size_t i = 0; i < ended_.size(); ++i)
    if (!ended_[i].error) account(ended_blocks_[i], ended_[i]);
  pump();
}

void swap_queue::account(const block& b, const io_completion& end) {
  auto& request = requests_[b.of];
  --request.in_flight;
  const auto error = judge(b, end);
  if (!error) {
    request.done_bytes += b.length;
    (request.what.kind == io_kind::read ? counters_.bytes_read : counters_.bytes_written) += b.length;
  } else if (!request.error && error->kind == core::error_kind::io && b.tries < swap_tries_max) {
    ++counters_.retries;
    ++request.to_retry;
    retries_.push_back(b);
  } else if (!request.error) {
    const bool again = b.tries > 1;
    give_up(b.of, again ? core::error{error->kind, fmt::format("{}; tried {} times", error->text, b.tries)} : *error);
  }
  settle(b.of);
}

// Ends a request with an error, so that it begins no further block. For a write, computes the digests of its unwritten
// blocks, too, so that the next read of these pages fails instead of returning a mixture of old and new pages.
void swap_queue::give_up(uint32_t of, const core::error& why) {
  auto& request = requests_[of];
  if (request.what.kind == io_kind::write)
    for (size_t p = request.part; p < request.what.parts.size(); ++p) {
      const auto& part = request.what.parts[p];
      const uint64_t inside = p == request.part ? request.inside : 0;
      part.on->take_digests(part.offset + inside, part.memory.subspan(inside));
    }
  request.error = why;
  request.to_retry = 0;
  std::erase_if(retries_, [of](const block& b) { return b.of == of; });
  std::erase(waiting_, of);
}

void swap_queue::settle(uint32_t of) {
  auto& request = requests_[of];
  const bool begun = request.part == request.what.parts.size();
  if (request.in_flight > 0 || request.to_retry > 0 || (!begun && !request.error)) return;
  ++counters_.requests;
  counters_.failed += request.error ? 1 : 0;
  over_.push_back({request.what.token, request.done_bytes, std::move(request.error)});
  request = under_way{};  // releases the request's files
  forget_closed();
  free_requests_.push_back(of);
  --pending_;
}

// Makes the event descriptor readable for completions that the underlying queue does not report.
void swap_queue::tell_of_errors() const {
  if (queue_->event_descriptor() >= 0) ::eventfd_write(queue_->event_descriptor(), 1);
}

size_t swap_queue::hand_out(std::vector<swap_completion>& out) {
  const size_t over = over_.size();
  out.insert(out.end(), std::make_move_iterator(over_.begin()), std::make_move_iterator(over_.end()));
  over_.clear();
  return over;
}

size_t swap_queue::poll(std::vector<swap_completion>& out) {
  ended_.clear();
  queue_->poll(ended_);
  take_ended();
  return hand_out(out);
}

size_t swap_queue::wait(std::vector<swap_completion>& out) {
  while (over_.empty() && pending_ > 0) {
    ended_.clear();
    queue_->wait(ended_);
    take_ended();
  }
  return hand_out(out);
}

void swap_queue::drain(std::vector<swap_completion>& out) {
  while (pending_ > 0 || !over_.empty()) wait(out);
}

void swap_queue::cancel_all() {
  queue_->cancel_all();
  for (uint32_t of = 0; of < requests_.size(); ++of) {
    auto& request = requests_[of];
    if (request.what.parts.empty() || request.error) continue;
    const bool begun = request.part == request.what.parts.size();
    // Skips a request whose blocks are all in flight: their ends are reported later.
    if (begun && request.to_retry == 0) continue;
    const auto& part = request.what.parts.front();
    give_up(of, {core::error_kind::stopped, fmt::format("{}: {} at {}: cancelled", part.on->handle().path().string(),
                                                        name_of(request.what.kind), part.offset)});
    settle(of);
  }
  tell_of_errors();
}

}  // namespace troupe::storage
