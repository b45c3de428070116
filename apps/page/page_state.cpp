#include "apps/page/page_state.hpp"

#include <utility>

#include "core/clock.hpp"
#include "core/text.hpp"

namespace troupe::apps {

page_state::page_state(page_facts facts) {
  all_.facts = std::move(facts);
  all_.started_unix_s = core::unix_seconds();
}

void page_state::begin(const std::string& loss_unit) {
  const std::lock_guard lock(mutex_);
  all_.facts.loss_unit = loss_unit;
}

void page_state::spans(uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>> ranks) {
  page_spans gone;  // spans of the oldest step, which are freed after the lock has been released
  const std::lock_guard lock(mutex_);
  all_.spans.push_back({step, std::move(ranks)});
  if (all_.spans.size() <= page_steps_max) return;
  gone = std::move(all_.spans.front());
  all_.spans.pop_front();
}

void page_state::step(const actors::step_report& r) {
  const std::lock_guard lock(mutex_);
  all_.last = r;
  all_.tokens += r.tokens;
  ++all_.steps_run;
  all_.skipped += r.skipped;
  const auto x = double(r.step);
  all_.loss.add(x, r.loss);
  all_.step_s.add(x, r.seconds);
  if (r.seconds > 0) all_.tokens_per_s.add(x, double(r.tokens) / r.seconds);
}

void page_state::memory(std::vector<actors::rank_memory_report> ranks) {
  const std::lock_guard lock(mutex_);
  all_.memory = std::move(ranks);
}

void page_state::evaluation(uint64_t step, double loss) {
  const std::lock_guard lock(mutex_);
  all_.validation_loss = loss;
  all_.validation.add(double(step), loss);
  add_line(core::text_of("validation loss %.4f after step %llu", loss, static_cast<unsigned long long>(step)));
}

void page_state::term(const actors::term_report& t) {
  const std::lock_guard lock(mutex_);
  all_.terms.push_back(t);
  if (all_.terms.size() > page_terms_max) all_.terms.pop_front();
  ++all_.num_terms;
  all_.steps_again += t.steps_again;
  all_.lost_s += t.lost_s;
  for (auto* series : {&all_.loss, &all_.validation, &all_.tokens_per_s, &all_.step_s}) series->cut(double(t.step));
}

void page_state::spike(const actors::loss_spike& s) {
  const std::lock_guard lock(mutex_);
  ++all_.num_spikes;
  all_.samples_left_out += s.samples;
  for (auto* series : {&all_.loss, &all_.validation, &all_.tokens_per_s, &all_.step_s}) series->cut(double(s.back_to));
}

void page_state::checkpoint(const actors::save_report& e) {
  const std::lock_guard lock(mutex_);
  all_.checkpoint = e;
  ++all_.num_checkpoints;
  add_line(core::text_of("checkpoint of step %llu: %.2f s", static_cast<unsigned long long>(e.step), e.seconds));
}

void page_state::line(const std::string& text) {
  const std::lock_guard lock(mutex_);
  add_line(text);
}

void page_state::add_line(const std::string& text) {
  all_.lines.push_back({core::unix_seconds(), text.substr(0, page_line_bytes_max)});
  if (all_.lines.size() > page_lines_max) all_.lines.pop_front();
}

page_copy page_state::copy() const {
  const std::lock_guard lock(mutex_);
  return all_;
}

}  // namespace troupe::apps
