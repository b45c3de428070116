#include "telemetry/report/recorder.hpp"

#include <algorithm>
#include <sstream>

#include "core/clock.hpp"
#include "plan/stage_place.hpp"
#include "telemetry/figures/profile.hpp"

namespace troupe::telemetry {

recorder::recorder(recorder_options options) : options_(std::move(options)), communication_(options_.collectives) {}

core::result<void> recorder::open(double unix_s, std::optional<uint64_t> goes_on_after, bool took_over) {
  options_.curves.goes_on_after = goes_on_after;
  options_.curves.took_over = took_over;
  TROUPE_ASSIGN(auto files, curve_files::open(options_.curves, unix_s));
  files_.emplace(std::move(files));
  return {};
}

// Warns about a failed write, once, because a full disk would repeat the failure at every step.
void recorder::note(const core::result<void>& did) {
  if (did || warned_ || !options_.warn) return;
  warned_ = true;
  const bool is_lost = files_ && files_->has_removed_file();
  options_.warn(did.error().text +
                (is_lost ? "; the run continues without these records"
                         : "; the run continues and tries to write the missing records again at every step"));
}

void recorder::log(const std::string& lines) const {
  if (!options_.log) return;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) options_.log(line);
}

void recorder::go_back(double unix_s, uint64_t step, uint64_t global_samples) {
  if (files_) note(files_->go_back(unix_s, global_samples));
  for (auto* series : {&curves_.loss, &curves_.validation, &curves_.lr, &curves_.grad_norm, &curves_.tokens_per_s})
    series->cut(double(step));
  for (auto& [name, series] : curves_.metrics) series.cut(double(step));
  for (auto& set : curves_.validation_sets) set.values.cut(double(step));
  std::erase_if(data_.skipped, [step](const skipped_step& s) { return s.step > step; });
  data_.steps_done = step;
}

// Discards the sums by unit and by pipeline stage if the plans of `spans` have another table of the model: the model is
// then split differently, so old sums cannot be continued.
void recorder::follow_cut(std::span<const rank_spans> spans) {
  if (spans.empty() || cut_ == spans.front().plan->layout->table) return;
  const bool is_first = cut_ == nullptr;
  cut_ = spans.front().plan->layout->table;
  if (is_first) return;
  profile_ = {};
  times_ = {};
  printed_.clear();
  num_printed_ = 0;
}

void recorder::step(const step_values& v, std::vector<rank_spans> spans) {
  follow_cut(spans);
  const step_breakdown times = spans.empty() ? step_breakdown{} : telemetry::break_down(spans, 0);
  if (files_) {
    note(files_->write(v.unix_s, v.global_samples, labelled(v, times, options_.labels)));
    note(files_->write_line(json_line(v, times)));
  }
  break_down(v.step, spans);
  if (options_.facts.pipeline > 1 || options_.profile) times_.add(spans);
  if (options_.communication || options_.report) {
    const bool each = options_.communication && options_.communication_verbose;
    communication_.add(spans, each ? options_.log : std::function<void(const std::string&)>{});
  }
  profile(v, spans);
  if (options_.report) keep_for_report(v, std::move(spans));
}

void recorder::break_down(uint64_t step, std::span<const rank_spans> spans) {
  if (options_.print_every == 0) return;
  const auto leaders = stage_leaders(spans);
  printed_.resize(std::max({size_t{1}, printed_.size(), leaders.size()}));
  for (size_t i = 0; i < leaders.size(); ++i) printed_[i] += telemetry::break_down(spans, leaders[i]);
  ++num_printed_;
  if (step % options_.print_every != 0 && step != options_.facts.steps) return;
  for (size_t i = 0; i < printed_.size(); ++i) {
    const auto* p = i < leaders.size() ? spans[leaders[i]].plan.get() : nullptr;
    log(breakdown_line(printed_[i] / double(num_printed_), p == nullptr ? "" : plan::stages_text(*p->layout, p->rank)));
  }
  printed_.clear();
  num_printed_ = 0;
}

void recorder::profile(const step_values& v, const std::vector<rank_spans>& spans) {
  if (spans.empty()) return;
  if (options_.flops && v.step == options_.flops->step + 1) {
    profile_sums one;
    one.add(spans);
    const auto& f = options_.facts;
    // The step's own number of micro-batches, which is below that of the job while the batch grows.
    const uint64_t micros = spans.front().plan->options().accumulation;
    flops_text_ = flops_table(one, {f.ranks, f.micro_batch, micros, f.parameters_per_rank, f.parameters, f.pipeline},
                              *options_.flops);
  }
  // The report's times of units omit the first step, since that step does set-up work that later steps reuse.
  if (options_.report && v.step > 1) profile_.add(spans);
}

void recorder::keep_for_report(const step_values& v, std::vector<rank_spans> spans) {
  const auto x = double(v.step);
  curves_.loss.add(x, v.loss);
  curves_.lr.add(x, v.lr);
  curves_.grad_norm.add(x, v.grad_norm);
  if (v.seconds > 0) curves_.tokens_per_s.add(x, double(v.tokens) / v.seconds);
  data_.steps_done = v.step;
  data_.tokens += v.tokens;
  data_.step_seconds += v.seconds;
  const double n = double(curves_.lr.num_values() + curves_.lr.num_not_finite());
  const auto mean = [n](double& into, double value) { into += (value - into) / n; };
  mean(data_.step_s, v.step_s);
  mean(data_.compute_s, v.compute_s);
  mean(data_.communication_s, v.communication_s);
  mean(data_.exposed_s, v.exposed_s);
  mean(data_.control_idle_s, v.control_idle_s);
  if (v.skipped) {
    ++data_.num_skipped;
    if (data_.skipped.size() < listed_skips_limit) data_.skipped.push_back({v.step, v.loss_scale});
  }
  if (v.step <= options_.report_step + 1) {
    drawn_ = std::move(spans);
    data_.drawn_step = v.step;
  }
}

void recorder::validation(const validation_values& v) {
  const std::string label = label_of_set(v.set);
  const curve_value value{label, v.loss};
  if (files_) {
    note(files_->write(v.unix_s, v.global_samples, {&value, 1}));
    note(files_->write_line(json_line(v)));
  }
  if (!options_.report) return;
  if (v.is_first) {
    curves_.validation.add(double(v.step), v.loss);
    curves_.validation_name = v.set;
    return;
  }
  auto& sets = curves_.validation_sets;
  auto at = std::ranges::find(sets, v.set, &named_series::name);
  if (at == sets.end()) at = sets.insert(sets.end(), named_series{v.set, {}});
  at->values.add(double(v.step), v.loss);
}

void recorder::metrics(const metric_values& v) {
  std::vector<std::string> labels;  // the texts of the values' labels
  for (const auto& [name, value] : v.values) labels.push_back(std::string(metric_label_begin) + name);
  std::vector<curve_value> values;
  for (size_t i = 0; i < labels.size(); ++i) values.push_back({labels[i], v.values[i].second});
  if (files_) {
    note(files_->write(v.unix_s, v.global_samples, values));
    note(files_->write_line(json_line(v)));
  }
  if (!options_.report) return;
  for (const auto& [name, value] : v.values) curves_.metrics[name].add(double(v.step), value);
}

run_records recorder::close(run_end end, uint64_t num_not_recorded) {
  run_records out;
  if (files_) {
    note(files_->end(core::unix_seconds(), end.verdict));
    out.curves_complete = files_->complete();
    files_.reset();
  }
  if (options_.communication) {
    const auto rows = communication_.rows();
    out.communication_table = communication_table(rows, communication_.shows_purpose());
    out.communication_json = communication_json(rows);
  }
  out.pipeline = data_.pipeline = pipeline_of(times_);
  if (options_.profile && times_.is_warm()) out.profile = plan::write_profile(profile_of(times_));
  data_.end = std::move(end);
  data_.num_not_recorded = num_not_recorded;
  return out;
}

std::string recorder::report(std::vector<std::string> files) {
  if (!options_.report) return "";
  data_.facts = options_.facts;
  data_.curves = &curves_;
  data_.lanes = drawn_;
  data_.units = profile_.units();
  data_.communication = communication_.rows_by_purpose();
  data_.files = std::move(files);
  return report_page(data_);
}

}  // namespace troupe::telemetry
