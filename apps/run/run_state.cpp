#include "apps/run/run_state.hpp"

#include <algorithm>
#include <chrono>
#include <nlohmann/json.hpp>
#include <utility>

#include "apps/base/people.hpp"

namespace troupe::apps {
namespace {

/// Number of the newest results of saves that are stored, for clients that have requested a save and ask for its result
/// later.
constexpr size_t ends_max = 16;
constexpr std::chrono::milliseconds looks_every{50};

}  // namespace

void run_state::begin(uint64_t done, const std::string& loss_unit) {
  const std::lock_guard lock(mutex_);
  done_ = done;
  loss_unit_ = loss_unit;
  phase_ = "training";
}

void run_state::enter(const char* phase) {
  const std::lock_guard lock(mutex_);
  phase_ = phase;
}

void run_state::step(const actors::step_report& r, uint64_t memory_bytes) {
  const std::lock_guard lock(mutex_);
  done_ = r.step;
  loss_ = r.loss;
  step_s_ = r.seconds;
  tokens_ = r.tokens;
  memory_bytes_ = memory_bytes;
}

void run_state::went_back(uint64_t done) {
  const std::lock_guard lock(mutex_);
  done_ = done;
}

void run_state::evaluation(double loss) {
  const std::lock_guard lock(mutex_);
  validation_ = loss;
}

void run_state::checkpoint(const actors::save_report& e) {
  const std::lock_guard lock(mutex_);
  last_ = e;
  ends_.push_back({taken_, {e.folder.string(), {}}});
  if (ends_.size() > ends_max) ends_.erase(ends_.begin());
}

void run_state::checkpoint_failed(const std::string& why) {
  const std::lock_guard lock(mutex_);
  ends_.push_back({taken_, {{}, why}});
  if (ends_.size() > ends_max) ends_.erase(ends_.begin());
}

void run_state::end_wish() {
  const std::lock_guard lock(mutex_);
  if (!ends_.empty() && ends_.back().first >= taken_) return;
  if (last_ && last_->step == done_)
    ends_.push_back({taken_, {last_->folder.string(), {}}});
  else
    ends_.push_back({taken_, {{}, "no checkpoint was written"}});
}

void run_state::page(const std::string& address) {
  const std::lock_guard lock(mutex_);
  page_ = address;
}

void run_state::terms(const std::string& sentence) {
  const std::lock_guard lock(mutex_);
  terms_ = sentence;
}

bool run_state::is_stop_wanted() const {
  const std::lock_guard lock(mutex_);
  return stops_;
}

bool run_state::is_save_wanted() const {
  const std::lock_guard lock(mutex_);
  return saves_;
}

bool run_state::take_save_wish() {
  const std::lock_guard lock(mutex_);
  taken_ = wishes_;
  return std::exchange(saves_, false);
}

void run_state::wait_while_paused(const std::function<bool()>& is_over) {
  std::unique_lock lock(mutex_);
  waits_ = pauses_;
  while (pauses_ && !stops_ && !saves_ && !is_over()) changed_.wait_for(lock, looks_every);
  waits_ = false;
}

void run_state::pause(bool wanted) {
  const std::lock_guard lock(mutex_);
  pauses_ = wanted;
  changed_.notify_all();
}

bool run_state::is_paused() const {
  const std::lock_guard lock(mutex_);
  return waits_;
}

void run_state::stop() {
  const std::lock_guard lock(mutex_);
  stops_ = true;
  changed_.notify_all();
}

uint64_t run_state::save() {
  const std::lock_guard lock(mutex_);
  saves_ = true;
  changed_.notify_all();
  return ++wishes_;
}

std::optional<run_state::save_end> run_state::saved(uint64_t number) const {
  const std::lock_guard lock(mutex_);
  const auto at = std::ranges::find_if(ends_, [number](const auto& x) { return x.first >= number; });
  if (at == ends_.end() || saves_) return std::nullopt;
  return at->second;
}

std::string run_state::phase() const {
  const std::lock_guard lock(mutex_);
  return waits_ ? "paused" : phase_;
}

uint64_t run_state::steps_done() const {
  const std::lock_guard lock(mutex_);
  return done_;
}

std::string run_state::status(const cluster::roster& people) const {
  const std::lock_guard lock(mutex_);
  nlohmann::ordered_json out;
  out["phase"] = waits_ ? "paused" : phase_;
  out["step"] = done_;
  out["steps"] = steps_;
  if (tokens_ > 0) {
    out["loss"] = loss_;
    out["loss_unit"] = loss_unit_;
    out["step_s"] = step_s_;
    out["tokens_per_s"] = step_s_ > 0 ? double(tokens_) / step_s_ : 0.0;
    out["memory_bytes"] = memory_bytes_;
  }
  if (validation_) out["validation_loss"] = *validation_;
  if (last_) out["checkpoint"] = {{"step", last_->step}, {"folder", last_->folder.string()}};
  if (!terms_.empty()) out["terms"] = terms_;
  if (!people.places.empty()) {
    out["term"] = people.term;
    out["processes"] = people_json(people);
  }
  if (!page_.empty()) out["page"] = page_;
  // Replaces invalid UTF-8, because a folder's name may contain any bytes
  return out.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void run_state::promise_spares(uint64_t term, const std::string& host, size_t processes) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(promised_in_, term) != term) promised_.clear();
  promised_[host] = processes;
}

run_state::promised_spares run_state::promised(uint64_t term, const std::string& to_others_than) const {
  const std::lock_guard lock(mutex_);
  promised_spares out;
  if (term != promised_in_) return out;
  for (const auto& [host, processes] : promised_) {
    if (host == to_others_than) continue;
    out.processes += processes;
    out.hosts += (out.hosts.empty() ? "" : ", ") + host;
  }
  return out;
}

}  // namespace troupe::apps
