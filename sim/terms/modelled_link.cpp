#include "sim/terms/modelled_link.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {

void modelled_stream::add(part p) {
  p.due_ns = now_ns_() + delay_min_ns_ + static_cast<int64_t>(random_() % static_cast<uint64_t>(delay_max_ns_ + 1));
  if (!parts_.empty()) p.due_ns = std::max(p.due_ns, parts_.back().due_ns);
  parts_.push_back(std::move(p));
}

void modelled_stream::send(const cluster::parcel& p) {
  if (closed_) return;
  std::string frame = cluster::frame_of(p.what, p.with.size());
  if (random_() % 8 != 0) return add({0, std::move(frame), p.with});
  const size_t first = 1 + random_() % (frame.size() - 1);
  add({0, frame.substr(0, first), p.with});
  add({0, frame.substr(first)});
}

void modelled_stream::close() {
  if (!std::exchange(closed_, true)) add({0, {}, {}, true});
}

void modelled_stream::cut() {
  if (closed_) return;
  const bool has_half = !parts_.empty() && parts_.front().bytes.size() > 1 && random_() % 2 == 0;
  part half = has_half ? parts_.front() : part{};
  parts_.clear();
  if (has_half) {
    half.bytes.resize(1 + random_() % (half.bytes.size() - 1));
    add(std::move(half));
  }
  close();
}

void modelled_stream::garble() {
  std::string bytes = cluster::frame_of(cluster::beat{}, 0);
  bytes.back() = '\x7f';  // no message has this kind
  if (!closed_) add({0, std::move(bytes)});
}

int64_t modelled_stream::due_ns() const {
  return parts_.empty() ? INT64_MAX : std::max(parts_.front().due_ns, held_until_ns_);
}

core::result<std::vector<cluster::parcel>> modelled_stream::receive() {
  while (due_ns() <= now_ns_()) {
    part p = std::move(parts_.front());
    parts_.pop_front();
    ended_ |= p.ends;
    in_.add(p.bytes);
    for (auto& d : p.with) in_.add(std::move(d));
  }
  std::vector<cluster::parcel> out;
  for (;;) {
    auto next = in_.next();
    if (!next) return core::fail(next.error());
    if (!*next) break;
    out.push_back(std::move(**next));
  }
  if (ended_ && out.empty()) return core::fail(core::error_kind::peer_lost, "the other end of a link: it was closed");
  return out;
}

}  // namespace troupe::sim
