#include "net/data_edge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "core/clock.hpp"

namespace troupe::net {
namespace {

using fabric::transfer_name;

/// Number of bytes that one connection reads or writes before the loop serves its other connections.
constexpr size_t turn_bytes = size_t{1} << 20;
/// Limits that protect this process from a faulty other end. urgent_bytes_max: bytes of queued notes and `ready`
/// frames, if the other end does not read; readies_max: number of stored `ready` frames, if it sends more and more.
constexpr size_t urgent_bytes_max = size_t{64} << 20, readies_max = size_t{1} << 20;

std::string text_of(const transfer_name& n) {
  return fmt::format("transfer {}.{}.{}", n.communicator, n.sequence, n.part);
}

core::error no_frame() { return {core::error_kind::mismatch, "it sends data that belongs to no requested transfer"}; }

}  // namespace

data_edge::data_edge(io_loop& loop, uint32_t place, connection c, const listeners& tell)
    : loop_(loop), place_(place), tell_(tell), with_(std::move(c)) {}

// ---- The following functions may be called by any thread.

void data_edge::send(const transfer_name& name, std::span<const std::byte> bytes, fabric::transfer_end tell) {
  core::error why;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) {
      const auto [at, is_new] = sends_.try_emplace(name, outgoing{bytes, tell});
      if (is_new) {
        if (const auto ready = readies_.find(name); ready != readies_.end()) {
          const uint64_t wanted = ready->second;
          readies_.erase(ready);
          compare(name, at->second, wanted);
        }
        return;
      }
      why = {core::error_kind::bug, fmt::format("{} to place {} is under way already", text_of(name), place_)};
    } else {
      why = *over_;
    }
  }
  tell(core::fail(why));
}

void data_edge::receive(const transfer_name& name, std::span<std::byte> bytes, fabric::transfer_end tell) {
  core::error why;
  {
    const std::lock_guard lock(mutex_);
    if (!over_) {
      if (receives_.try_emplace(name, incoming{bytes, tell}).second)
        return say_urgently({data_kind::ready, 0, name, bytes.size()});
      why = {core::error_kind::bug, fmt::format("{} of process {} is already being received", text_of(name), place_)};
    } else {
      why = *over_;
    }
  }
  tell(core::fail(why));
}

void data_edge::note(std::string text) {
  const std::lock_guard lock(mutex_);
  if (!over_) say_urgently({data_kind::note, static_cast<uint32_t>(text.size()), {}, 0}, text);
}

// Queues a note or a short frame, which is sent before chunks of transfers. Requires that the caller holds mutex_.
void data_edge::say_urgently(const data_frame& f, std::string_view payload) {
  std::string out(sizeof f + payload.size(), '\0');
  std::memcpy(out.data(), &f, sizeof f);
  if (!payload.empty()) std::memcpy(&out[sizeof f], payload.data(), payload.size());
  urgent_bytes_ += out.size();
  urgent_.push_back(std::move(out));
  wake();
}

// Makes the loop's thread call turn(), which reads and writes, unless a call is pending. Requires that the caller holds
// mutex_.
void data_edge::wake() {
  if (!std::exchange(is_woken_, true)) loop_.post([self = shared_from_this()] { self->turn(); });
}

/// Starts transfer `name`, for which both ends are ready, if the other end expects as many bytes (`wanted`) as this end
/// sends; else ends the transfer. The caller holds mutex_.
void data_edge::compare(const transfer_name& name, outgoing& x, uint64_t wanted) {
  if (wanted == x.bytes.size()) {
    x.is_ready = true;
    turns_.push_back(name);
    return wake();
  }
  say_urgently({data_kind::unequal, 0, name, x.bytes.size()});
  ended_.push_back({std::move(x.tell), core::fail(of_transfer(name, "to", x.bytes.size(), wanted))});
  sends_.erase(name);
}

core::error data_edge::of_transfer(const transfer_name& name, const char* what, uint64_t ours, uint64_t theirs) const {
  return {core::error_kind::mismatch,
          fmt::format("{} {} place {}: wanted {} bytes on both ends, got {} at the other end", text_of(name), what,
                      place_, ours, theirs)};
}

// ---- Only the loop's thread calls the following functions.

bool data_edge::is_over() const {
  const std::lock_guard lock(mutex_);
  return over_.has_value();
}

bool data_edge::has_too_much() const {
  const std::lock_guard lock(mutex_);
  return urgent_bytes_ > urgent_bytes_max;
}

void data_edge::turn() {
  if (with_.socket == nullptr || is_over()) return;
  {
    const std::lock_guard lock(mutex_);
    is_woken_ = false;
  }
  core::result<bool> more = write();
  if (more) {
    const bool writes = *more;
    more = read();
    if (more) *more = *more || writes;
  }
  if (more && has_too_much()) more = core::fail(core::error_kind::limit, "it does not read what is sent to it");
  tell_ended();
  if (with_.socket == nullptr || is_over()) return;  // a function called by tell_ended has stopped the edge
  if (!more) return lose(more.error());
  if (*more) {
    const std::lock_guard lock(mutex_);
    return wake();
  }
  with_.socket->when_readable([self = shared_from_this()] { self->turn(); });
  if (with_.tls->has_unsent()) with_.socket->when_writable([self = shared_from_this()] { self->turn(); });
}

/// Writes frames until nothing is left, the socket is full, or turn_bytes are written. Returns true if it stops because
/// of turn_bytes.
core::result<bool> data_edge::write() {
  TROUPE_TRY(with_.tls->flush());
  // Writes only into an empty buffer: otherwise tls->write() would have to move the unsent bytes within the buffer.
  if (with_.tls->has_unsent()) return false;
  for (size_t written = 0;;) {
    if (head_sent_ == head_out_.size() && chunk_.empty() && !next_frame()) {
      TROUPE_TRY(with_.tls->flush());
      return false;
    }
    const bool in_head = head_sent_ < head_out_.size();
    const auto from = in_head ? std::as_bytes(std::span(head_out_)).subspan(head_sent_) : chunk_;
    TROUPE_ASSIGN(const auto n, with_.tls->write(from));
    written += n;
    if (in_head)
      head_sent_ += n;
    else
      chunk_ = chunk_.subspan(n);
    if (head_sent_ == head_out_.size() && chunk_.empty()) end_chunk();
    if (n == from.size() && written < turn_bytes) continue;
    TROUPE_TRY(with_.tls->flush());
    if (with_.tls->has_unsent()) return false;
    if (written >= turn_bytes) return true;
  }
}

bool data_edge::next_frame() {
  const std::lock_guard lock(mutex_);
  head_sent_ = 0;
  head_out_.clear();
  chunk_bytes_ = 0;
  if (!urgent_.empty()) {
    head_out_ = std::move(urgent_.front());
    urgent_.pop_front();
    urgent_bytes_ -= head_out_.size();
    return true;
  }
  if (turns_.empty()) return false;
  chunk_name_ = turns_.front();
  turns_.pop_front();
  const outgoing& x = sends_.at(chunk_name_);
  chunk_ = x.bytes.subspan(x.sent, std::min(x.bytes.size() - x.sent, chunk_bytes_max));
  chunk_bytes_ = chunk_.size();
  const data_frame f{data_kind::chunk, static_cast<uint32_t>(chunk_.size()), chunk_name_, x.sent};
  head_out_.assign(reinterpret_cast<const char*>(&f), sizeof f);
  return true;
}

/// Called when all bytes of a frame are in the stream. Counts a chunk's bytes; queues the transfer's next chunk or ends
/// the transfer.
void data_edge::end_chunk() {
  data_frame f;
  std::memcpy(&f, head_out_.data(), sizeof f);
  if (f.kind != data_kind::chunk) return;
  sent_bytes_ += chunk_bytes_;
  const std::lock_guard lock(mutex_);
  const auto at = sends_.find(chunk_name_);
  if (at == sends_.end()) return;
  at->second.sent += chunk_bytes_;
  if (at->second.sent < at->second.bytes.size()) return turns_.push_back(chunk_name_);
  ended_.push_back({std::move(at->second.tell), {}});
  sends_.erase(at);
}

/// Reads frames until no bytes are left or turn_bytes are read. Returns true if it stops because of turn_bytes.
core::result<bool> data_edge::read() {
  for (size_t read = 0; read < turn_bytes;) {
    const bool in_head = head_got_ < head_in_.size();
    TROUPE_ASSIGN(const auto n, with_.tls->read(in_head ? std::span(head_in_).subspan(head_got_) : payload_));
    if (n == 0) return false;
    read += n;
    if (in_head) {
      head_got_ += n;
      if (head_got_ < head_in_.size()) continue;
      TROUPE_TRY(hear_frame());
    } else {
      payload_ = payload_.subspan(n);
    }
    if (!payload_.empty()) continue;
    end_payload();
    if (is_over()) return false;  // the receiver of a note has stopped the edge
  }
  return true;
}

core::result<void> data_edge::hear_frame() {
  std::memcpy(&frame_, head_in_.data(), sizeof frame_);
  switch (frame_.kind) {
    case data_kind::ready:
      return hear_ready();
    case data_kind::chunk:
      return hear_data();
    case data_kind::note:
      if (frame_.bytes > fabric::note_bytes_max || frame_.number != 0 || frame_.name != transfer_name{}) break;
      note_.resize(frame_.bytes);
      payload_ = std::as_writable_bytes(std::span(note_));
      return {};
    case data_kind::unequal: {
      const std::lock_guard lock(mutex_);
      const auto at = receives_.find(frame_.name);
      if (frame_.bytes != 0 || at == receives_.end() || at->second.got > 0 || frame_.number == at->second.bytes.size())
        break;
      ended_.push_back({std::move(at->second.tell),
                        core::fail(of_transfer(frame_.name, "from", at->second.bytes.size(), frame_.number))});
      receives_.erase(at);
      return {};
    }
  }
  return core::fail(no_frame());
}

core::result<void> data_edge::hear_ready() {
  const std::lock_guard lock(mutex_);
  if (frame_.bytes != 0) return core::fail(no_frame());
  const auto at = sends_.find(frame_.name);
  if (at == sends_.end()) {
    if (readies_.size() >= readies_max || !readies_.emplace(frame_.name, frame_.number).second)
      return core::fail(no_frame());
    return {};
  }
  if (at->second.is_ready) return core::fail(no_frame());
  compare(frame_.name, at->second, frame_.number);
  return {};
}

core::result<void> data_edge::hear_data() {
  const std::lock_guard lock(mutex_);
  const auto at = receives_.find(frame_.name);
  if (at == receives_.end()) return core::fail(no_frame());
  const incoming& x = at->second;
  const size_t left = x.bytes.size() - x.got;
  if (frame_.number != x.got || frame_.bytes > left || frame_.bytes > chunk_bytes_max ||
      (frame_.bytes == 0 && !x.bytes.empty()))
    return core::fail(no_frame());
  payload_ = x.bytes.subspan(x.got, frame_.bytes);
  if (x.got == 0 && coming_in_++ == 0) coming_since_ns_ = core::now_ns();
  return {};
}

/// Called when all bytes of a frame have arrived. Reports a note; counts a chunk's bytes and may end the transfer.
void data_edge::end_payload() {
  head_got_ = 0;
  if (frame_.kind == data_kind::note) {
    if (tell_.note) tell_.note(place_, note_);
    return;
  }
  if (frame_.kind != data_kind::chunk) return;
  received_bytes_ += frame_.bytes;
  const std::lock_guard lock(mutex_);
  const auto at = receives_.find(frame_.name);
  if (at == receives_.end()) return;
  at->second.got += frame_.bytes;
  if (at->second.got < at->second.bytes.size()) return;
  if (--coming_in_ == 0) receiving_ns_ += core::now_ns() - coming_since_ns_;
  ended_.push_back({std::move(at->second.tell), {}});
  receives_.erase(at);
}

void data_edge::tell_ended() {
  for (;;) {
    ended_transfer next;
    {
      const std::lock_guard lock(mutex_);
      if (ended_.empty()) return;
      next = std::move(ended_.front());
      ended_.pop_front();
    }
    if (next.tell) next.tell(next.how);
  }
}

void data_edge::lose(const core::error& why) {
  const core::error said = why.in(fmt::format("place {} ({})", place_, with_.address));
  const core::error lost{core::error_kind::peer_lost, said.text};
  end(lost);
  if (tell_.lost) tell_.lost(place_, lost);
}

void data_edge::end(const core::error& why) {
  {
    const std::lock_guard lock(mutex_);
    if (!over_) over_ = why;
    for (auto& [name, x] : std::exchange(sends_, {})) ended_.push_back({std::move(x.tell), core::fail(why)});
    for (auto& [name, x] : std::exchange(receives_, {})) ended_.push_back({std::move(x.tell), core::fail(why)});
    turns_.clear();
    urgent_.clear();
    readies_.clear();
  }
  chunk_ = {};
  payload_ = {};
  if (const auto socket = std::exchange(with_.socket, nullptr)) socket->close();
  with_.tls.reset();
  tell_ended();
}

}  // namespace troupe::net
