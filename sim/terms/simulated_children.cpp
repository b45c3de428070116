#include "sim/terms/simulated_children.hpp"

#include <algorithm>
#include <utility>

namespace troupe::sim {
namespace {

constexpr int64_t start_max_ns = 30'000'000;
/// Largest delay, in ns, of a message between processes on one machine.
constexpr int64_t delay_max_ns = 20'000;

}  // namespace

bool simulated_children::is_empty() const {
  return std::ranges::all_of(all_, [](const child& c) { return c.is_gone && c.end == nullptr; });
}

void simulated_children::start(uint32_t place) {
  child& c = all_[place];
  c = {};
  c.is_gone = false;
  c.starts_ns = now() + static_cast<int64_t>(random_() % start_max_ns);
  const auto clock = [this] { return now(); };
  c.up = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns);
  c.down = std::make_shared<modelled_stream>(clock, random_(), delay_max_ns);
  c.end = std::make_unique<modelled_link>(c.down, c.up);
}

void simulated_children::kill(uint32_t place) {
  child& c = all_[place];
  if (c.process) c.process->kill();
  c = {};
}

void simulated_children::kill_all() {
  for (uint32_t p = 0; p < all_.size(); ++p) kill(p);
}

void simulated_children::vanish() {
  for (child& c : all_) {
    if (c.process) c.process->kill(false);
    c = {};
  }
}

void simulated_children::orphan() {
  for (child& c : all_) {
    if (c.down) c.down->close();
    if (c.process) c.process->orphan();
    if (c.process == nullptr) c.is_gone = true;
    c.end.reset();
  }
}

void simulated_children::send(uint32_t place, cluster::parcel p) {
  if (all_[place].end) (void)all_[place].end->send(std::move(p));
}

void simulated_children::end_by_signal(uint32_t place) {
  child& c = all_[place];
  if (c.is_gone) return;
  if (c.process) c.process->kill();
  c.process.reset();
  c.is_gone = true;
  c.up->close();
}

void simulated_children::stop(uint32_t place, int64_t ns) {
  child& c = all_[place];
  if (c.is_gone) return;
  c.stopped_until_ns = now() + ns;
  // The listening thread then checks its timeouts before the ranks continue.
  if (c.process) c.process->stop(ns + 1'000'000);
}

void simulated_children::cut_link(uint32_t place) {
  child& c = all_[place];
  if (c.is_gone) return;
  c.up->cut();
  c.down->cut();
}

void simulated_children::garble_link(uint32_t place) {
  if (!all_[place].is_gone) all_[place].up->garble();
}

// Delivers the messages of a process and the end of its link, as children::hear and children::end_of_link do.
void simulated_children::hear(uint32_t place) {
  while (all_[place].end && all_[place].up->due_ns() <= now()) {
    auto came = all_[place].end->receive();
    if (!came) {
      child& c = all_[place];
      c.end.reset();
      if (!c.leaves && !may_end_) kill(place);
      return ended_(place, "was lost: " + came.error().text);
    }
    for (auto& p : *came) {
      ++messages_;
      if (std::holds_alternative<cluster::leaving>(p.what)) all_[place].leaves = true;
      received_(place, std::move(p));
    }
  }
}

void simulated_children::listen() {
  for (uint32_t p = 0; p < all_.size(); ++p) hear(p);
}

void simulated_children::run_processes() {
  for (uint32_t p = 0; p < all_.size(); ++p) {
    child& c = all_[p];
    if (c.is_gone || c.stopped_until_ns > now()) continue;
    if (c.starts_ns <= now()) {
      c.starts_ns = INT64_MAX;
      c.process = std::make_unique<simulated_process>(around_, p, std::make_unique<modelled_link>(c.up, c.down));
    }
    if (!c.process || (c.process->looks_at_ns() > now() && c.down->due_ns() > now())) continue;
    messages_ += c.down->due_ns() <= now();
    c.process->listen();
  }
}

void simulated_children::go_on() {
  for (uint32_t p = 0; p < all_.size(); ++p) {
    child& c = all_[p];
    if (!c.process || c.stopped_until_ns > now()) continue;
    c.process->go_on();
    struck_ |= c.process->is_executor_struck();
    if (c.process->is_over()) depart(p);
  }
}

// Removes a process that has ended: its last messages arrive, then the end of its link.
void simulated_children::depart(uint32_t place) {
  child& c = all_[place];
  why_[place] = c.process->why();
  c.process->kill();
  c.process.reset();
  c.is_gone = true;
  c.up->close();
}

int64_t simulated_children::due_ns() const {
  int64_t out = INT64_MAX;
  for (const child& c : all_)
    if (c.end) out = std::min(out, c.up->due_ns());
  return out;
}

int64_t simulated_children::processes_due_ns() const {
  int64_t out = INT64_MAX;
  for (const child& c : all_) {
    if (c.is_gone) continue;
    int64_t mine = c.starts_ns;
    if (c.process) mine = std::min(c.process->looks_at_ns(), c.down->due_ns());
    out = std::min(out, std::max(mine, c.stopped_until_ns));
  }
  return out;
}

}  // namespace troupe::sim
