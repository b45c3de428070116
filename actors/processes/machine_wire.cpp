#include "actors/processes/machine_wire.hpp"

#include <fmt/format.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <map>
#include <utility>

#include "core/byte_stream.hpp"
#include "net/tls_mover.hpp"

namespace troupe::actors {
namespace {

/// Number by which fabric::note_switch recognises messages with pulses; differs from the numbers of communicators and
/// from machine_files::notes.
constexpr uint64_t pulse_notes = machine_files::notes + 1;

/// Time limit for connecting to the other processes: one day, so in effect none. The other processes may still plan and
/// allocate memory; the loss of a process ends the wait.
constexpr int64_t connect_ns_max = 86'400'000'000'000;

std::string own_address() {
  const char* const text = std::getenv(cluster::address_variable);
  return text == nullptr ? "127.0.0.1" : text;
}

}  // namespace

core::result<std::shared_ptr<machine_wire>> machine_wire::open(cluster::process& link, const term_members& who,
                                                               const std::string& secret) {
  const std::string address = own_address();
  std::array<std::byte, 32> key{};
  if (secret.size() != key.size())
    return core::fail(core::error_kind::bug,
                      fmt::format("processes: wanted a term's secret of 32 bytes, got {}", secret.size()));
  std::memcpy(key.data(), secret.data(), key.size());
  auto mover =
      net::tls_mover::open({.key = {net::term_secret(key), "troupe", link.term(), who.place}, .listen_at = address});
  if (!mover)
    return core::fail(mover.error().in("where other hosts send to (cluster.hosts[].bind, cluster.interface)"));
  std::shared_ptr<net::tls_mover> moves = std::move(*mover);
  std::shared_ptr<machine_wire> out(new machine_wire());
  out->mover_ = moves;
  out->files_ = std::make_shared<machine_files>(moves, who.place);
  out->notes_ = fabric::note_switch::make(*moves);
  out->notes_->add(machine_files::notes,
                   [files = out->files_](uint32_t from, std::string_view text) { files->hear(from, text); });
  moves->on_lost([to = std::weak_ptr(out)](uint32_t place, const core::error& why) {
    if (const auto wire = to.lock()) wire->lose(place, why);
  });
  link.on_end([to = std::weak_ptr(out)](const core::error& why) {
    if (const auto wire = to.lock()) wire->stop(why);
  });
  link.give_address(address, moves->port());
  out->place_ = who.place;
  for (const auto* const all : {&who.seats, &who.keepers})
    for (const auto& s : *all)
      if (s.machine != who.machine()) out->others_.push_back(s.place);
  TROUPE_ASSIGN(auto addresses, link.addresses(out->others_));
  std::map<uint32_t, net::mover_peer> peers;
  for (const auto& [place, at] : addresses) peers[place] = {at.host, at.port};
  TROUPE_TRY(moves->connect(peers, connect_ns_max));
  return out;
}

machine_wire::~machine_wire() { stop({core::error_kind::stopped, "the term has ended"}); }

uint64_t machine_wire::entered_bytes() const {
  uint64_t out = 0;
  for (const uint32_t place : others_) out += mover_->moved(place).received;
  return out;
}

std::vector<link_traffic> machine_wire::links() const {
  std::vector<link_traffic> out;
  for (const uint32_t place : others_)
    out.push_back({place, place_, mover_->moved(place).received, mover_->receiving_ns(place)});
  return out;
}

void machine_wire::on_pulses(std::function<void(std::string_view text)> hear) {
  notes_->add(pulse_notes, [hear = std::move(hear)](uint32_t, std::string_view text) { hear(text); });
}

void machine_wire::send_pulses(uint32_t place, const std::string& text) {
  mover_->note(place, core::as_bytes(pulse_notes) + text);
}

void machine_wire::on_lost(std::function<void(const core::error&)> tell) {
  std::unique_lock lock(mutex_);
  tell_ = std::move(tell);
  const auto before = lost_;
  lock.unlock();
  if (before) tell_(*before);
}

void machine_wire::lose(uint32_t place, const core::error& why) {
  files_->lose(place, why);
  std::unique_lock lock(mutex_);
  if (lost_) return;
  lost_ = why;
  lost_place_ = place;
  const auto tell = tell_;
  lock.unlock();
  if (tell) tell(why);
}

uint32_t machine_wire::lost_place() const {
  const std::lock_guard lock(mutex_);
  return lost_place_;
}

void machine_wire::stop(const core::error& why) {
  files_->stop(why);
  mover_->stop(why);
}

}  // namespace troupe::actors
