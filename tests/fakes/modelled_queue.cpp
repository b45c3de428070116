#include "tests/fakes/modelled_queue.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cmath>

namespace troupe::storage {

namespace {

constexpr uint64_t sector_bytes = 512;

}  // namespace

modelled_queue::modelled_queue(const io_queue_options& options, const disk_model& disk)
    : io_queue(options), disk_(disk), random_(disk.seed) {
  under_way_.reserve(options.depth);
}

core::result<std::unique_ptr<modelled_queue>> modelled_queue::open(const io_queue_options& options,
                                                                   const disk_model& disk) {
  if (auto fit = check(options); !fit) return core::fail(fit.error());
  for (const double odds : {disk.busy, disk.fail, disk.torn, disk.lost, disk.cut})
    if (!(odds >= 0 && odds <= 1))
      return core::fail(core::error_kind::bad_input,
                        fmt::format("modelled disk: wanted odds from 0 to 1, got {:f}", odds));
  if (!(disk.bytes_per_second > 0) || !std::isfinite(disk.bytes_per_second) || disk.latency_ns < 0 ||
      disk.jitter_ns < 0)
    return core::fail(core::error_kind::bad_input, fmt::format("modelled disk: wanted a speed above 0 and no negative "
                                                               "times, got {:f} bytes/s, latency {} ns, jitter {} ns",
                                                               disk.bytes_per_second, disk.latency_ns, disk.jitter_ns));
  return std::unique_ptr<modelled_queue>(new modelled_queue(options, disk));
}

modelled_queue::~modelled_queue() { finish(); }

bool modelled_queue::happens(double odds) {
  if (odds <= 0) return false;
  const bool yes = static_cast<double>(random_() >> 11) * 0x1p-53 < odds;
  faults_ += yes ? 1 : 0;
  return yes;
}

void modelled_queue::begin(uint32_t slot) {
  const auto bytes = static_cast<double>(at(slot).rest().size());
  const int64_t start = std::max(now_ns_, idle_ns_);
  idle_ns_ = start + static_cast<int64_t>(bytes / disk_.bytes_per_second * 1e9);
  int64_t jitter = 0;
  if (disk_.jitter_ns > 0) jitter = static_cast<int64_t>(random_() % (static_cast<uint64_t>(disk_.jitter_ns) + 1));
  under_way_.push_back({slot, start, idle_ns_ + disk_.latency_ns + jitter});
}

int64_t modelled_queue::next_ns() const {
  int64_t next = -1;
  for (const auto& o : under_way_)
    if (next < 0 || o.end_ns < next) next = o.end_ns;
  return next;
}

void modelled_queue::advance(int64_t ns) {
  now_ns_ += std::max<int64_t>(ns, 0);
  if (const int64_t next = next_ns(); next >= 0 && next <= now_ns_) signal_event();
}

void modelled_queue::reap(bool block, std::vector<answer>& answers) {
  if (block) now_ns_ = std::max(now_ns_, next_ns());
  const auto over = std::stable_partition(under_way_.begin(), under_way_.end(),
                                          [this](const operation& o) { return o.end_ns > now_ns_; });
  std::stable_sort(over, under_way_.end(), [](const auto& a, const auto& b) { return a.end_ns < b.end_ns; });
  for (auto o = over; o != under_way_.end(); ++o) answers.push_back({o->slot, carry_out(*o)});
  under_way_.erase(over, under_way_.end());
}

void modelled_queue::stop_all() {
  // Transfers that the disk has started end as planned; the others are cancelled.
  for (auto& o : under_way_)
    if (o.start_ns > now_ns_) {
      o.stopped = true;
      o.end_ns = now_ns_;
    }
  signal_event();
}

int64_t modelled_queue::move_bytes(const transfer& what, uint64_t from, uint64_t length) const {
  const auto& request = what.request();
  const auto part = what.rest().subspan(from, length);
  transfer piece(request.kind == io_kind::read ? read_request(request.on, what.rest_offset() + from, part)
                                               : write_request(request.on, what.rest_offset() + from, part));
  const auto done = piece.run();
  return done ? static_cast<int64_t>(*done) : -EIO;
}

int64_t modelled_queue::carry_out(const operation& o) {
  if (o.stopped) return -ECANCELED;
  const transfer& what = at(o.slot);
  const bool writes = what.request().kind == io_kind::write;
  uint64_t length = what.rest().size();
  if (happens(disk_.busy)) return random_() % 2 == 0 ? -EAGAIN : -EINTR;
  if (happens(disk_.fail)) return -EIO;
  if (writes && happens(disk_.torn)) {
    for (uint64_t from = 0; from < length; from += sector_bytes)
      if (random_() % 2 == 0) move_bytes(what, from, std::min(sector_bytes, length - from));
    return -EIO;
  }
  if (writes && happens(disk_.lost)) return static_cast<int64_t>(length);
  if (happens(disk_.cut)) {
    const uint64_t sectors = length / sector_bytes;
    length = sectors > 1 ? sector_bytes * (1 + random_() % (sectors - 1)) : length;
  }
  if (writes) {
    // Only writes that extend a file need free bytes; overwriting needs none.
    const auto size = what.request().on.size_bytes();
    if (!size) return -EIO;
    const uint64_t owned = *size > what.rest_offset() ? *size - what.rest_offset() : 0;
    if (length > owned) {
      const uint64_t grows = std::min(length - owned, disk_.free_bytes);
      if (grows < length - owned) ++faults_;
      length = owned + grows;
      if (length == 0) return -ENOSPC;
      disk_.free_bytes -= grows;
    }
  }
  return move_bytes(what, 0, length);
}

}  // namespace troupe::storage
