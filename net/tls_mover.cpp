#include "net/tls_mover.hpp"

#include <fmt/format.h>

#include <chrono>
#include <utility>

namespace troupe::net {
namespace {

constexpr size_t job_bytes_max = 128;
/// Options of data connections. buffer_bytes: room for eight TLS records, which one system call sends while they are in
/// the CPU's cache. queue_bytes limits the unsent bytes in the system's buffer, because a note waits until the bytes
/// before it are sent.
constexpr connector_options of_data{.buffer_bytes = size_t{128} << 10, .queue_bytes = 512 << 10};

core::error refused(core::error why) {
  if (why.kind == core::error_kind::mismatch)
    why.text += "; wanted a process of the same job and term, with its secret";
  return why;
}

}  // namespace

tls_mover::tls_mover(mover_setup setup, std::unique_ptr<io_loop> loop)
    : key_(std::make_shared<const term_key>(std::move(setup.key))),
      loop_(std::move(loop)),
      connector_(std::make_unique<connector>(*loop_, of_data)) {
  edge_listeners_.note = [this](uint32_t from, std::string_view text) {
    if (listeners_.note) listeners_.note(from, text);
  };
  edge_listeners_.lost = [this](uint32_t place, const core::error& why) {
    fail(place, why);
    if (listeners_.lost) listeners_.lost(place, why);
  };
}

core::result<std::unique_ptr<tls_mover>> tls_mover::open(mover_setup setup) {
  if (setup.key.job.size() > job_bytes_max)
    return core::fail(core::error_kind::bad_input, fmt::format("a job's name: wanted at most {} bytes, got {}",
                                                               job_bytes_max, setup.key.job.size()));
  TROUPE_ASSIGN(auto loop, io_loop::start());
  const std::string at = setup.listen_at;
  std::unique_ptr<tls_mover> out(new tls_mover(std::move(setup), std::move(loop)));
  TROUPE_ASSIGN(auto options, secret_options(out->key_));
  auto* const self = out.get();
  TROUPE_ASSIGN(const auto port, out->connector_->listen(
                                     at, 0, std::move(options), [] { return std::make_unique<secret_check>(); },
                                     [self](core::result<connection> c, std::unique_ptr<first_words>) {
                                       // the connection was refused, and connector.hpp has closed it already
                                       if (!c) return;
                                       if (const auto place = place_of(*c->tls))
                                         return self->join(*place, std::move(*c));
                                       c->socket->close();
                                     }));
  out->port_ = port;
  return out;
}

tls_mover::~tls_mover() { tls_mover::stop({core::error_kind::stopped, "the mover of bytes has ended"}); }

void tls_mover::join(uint32_t place, connection c) {
  std::shared_ptr<data_edge> edge;
  {
    const std::lock_guard lock(mutex_);
    if (stopped_ || edges_.contains(place)) return c.socket->close();
    edge = std::make_shared<data_edge>(*loop_, place, std::move(c), edge_listeners_);
    edges_.emplace(place, edge);
  }
  joined_.notify_all();
  edge->begin();
}

void tls_mover::fail(uint32_t place, core::error why) {
  const std::lock_guard lock(mutex_);
  failures_.emplace(place, std::move(why));
  joined_.notify_all();
}

core::result<void> tls_mover::connect(const std::map<uint32_t, mover_peer>& peers, int64_t within_ns) {
  for (const auto& [place, peer] : peers) {
    if (place == key_->place)
      return core::fail(core::error_kind::bad_input,
                        fmt::format("a mover's peers: wanted other places than its own, got {}", place));
    if (place > key_->place) continue;
    TROUPE_ASSIGN(auto options, secret_options_to(key_, place));
    loop_->post([this, place = place, peer = peer, within_ns, options = std::move(options)] {
      connector_->connect(peer.host, peer.port, options, std::make_unique<secret_check>(), within_ns,
                          [this, place](core::result<connection> c, std::unique_ptr<first_words>) {
                            if (c) return join(place, std::move(*c));
                            fail(place, refused(c.error()).in(fmt::format("place {}", place)));
                          });
    });
  }
  std::unique_lock lock(mutex_);
  std::string missing;
  std::optional<core::error> failure;
  const auto is_over = [&] {
    missing.clear();
    for (const auto& [place, peer] : peers) {
      if (const auto at = failures_.find(place); at != failures_.end()) failure = at->second;
      if (!edges_.contains(place)) missing += fmt::format("{}{}", missing.empty() ? "" : ", ", place);
    }
    return missing.empty() || failure || stopped_;
  };
  const bool over = joined_.wait_for(lock, std::chrono::nanoseconds(within_ns), is_over);
  if (stopped_) return core::fail(*stopped_);
  if (failure) return core::fail(*failure);
  if (over) return {};
  return core::fail(
      core::error_kind::peer_lost,
      fmt::format("connections for data: none within {} s to place {}; let the hosts reach each other on any port",
                  within_ns / 1'000'000'000, missing));
}

std::shared_ptr<data_edge> tls_mover::edge_to(uint32_t place, core::error& why) const {
  const std::lock_guard lock(mutex_);
  if (stopped_) {
    why = *stopped_;
    return nullptr;
  }
  const auto at = edges_.find(place);
  if (at != edges_.end()) return at->second;
  why = {core::error_kind::bad_input, fmt::format("a transfer: wanted a place that is connected, got {}", place)};
  return nullptr;
}

void tls_mover::send(uint32_t place, const fabric::transfer_name& name, std::span<const std::byte> bytes,
                     fabric::transfer_end tell) {
  core::error why;
  if (const auto edge = edge_to(place, why)) return edge->send(name, bytes, std::move(tell));
  tell(core::fail(why));
}

void tls_mover::receive(uint32_t place, const fabric::transfer_name& name, std::span<std::byte> bytes,
                        fabric::transfer_end tell) {
  core::error why;
  if (const auto edge = edge_to(place, why)) return edge->receive(name, bytes, std::move(tell));
  tell(core::fail(why));
}

void tls_mover::note(uint32_t place, std::string text) {
  core::error why;
  if (text.size() > fabric::note_bytes_max) text.resize(fabric::note_bytes_max);
  if (const auto edge = edge_to(place, why)) edge->note(std::move(text));
}

void tls_mover::stop(const core::error& why) {
  const bool here = loop_->is_own_thread();
  std::unique_lock alone(stopping_, std::defer_lock);
  if (!here) alone.lock();  // waits until a concurrent call of stop() has ended all transfers
  std::map<uint32_t, std::shared_ptr<data_edge>> edges;
  core::error reason;
  {
    const std::lock_guard lock(mutex_);
    if (!stopped_) stopped_ = why;
    reason = *stopped_;
    edges = edges_;
  }
  joined_.notify_all();
  loop_->stop();
  for (const auto& [place, edge] : edges) edge->end(reason);
}

fabric::moved_bytes tls_mover::moved(uint32_t place) const {
  const std::lock_guard lock(mutex_);
  const auto at = edges_.find(place);
  return at == edges_.end() ? fabric::moved_bytes{} : at->second->moved();
}

int64_t tls_mover::receiving_ns(uint32_t place) const {
  const std::lock_guard lock(mutex_);
  const auto at = edges_.find(place);
  return at == edges_.end() ? 0 : at->second->receiving_ns();
}

}  // namespace troupe::net
