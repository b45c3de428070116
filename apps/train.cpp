#include "apps/train.hpp"

#include <unistd.h>

#include <cmath>
#include <csignal>
#include <cstdio>
#include <filesystem>
#include <functional>

#include "actors/calibrate.hpp"
#include "actors/session/memory_need.hpp"
#include "actors/session/session.hpp"
#include "apps/checkpoints.hpp"
#include "apps/configuration.hpp"
#include "apps/interrupts.hpp"
#include "apps/opening_display.hpp"
#include "apps/progress.hpp"
#include "checkpoint/files/atomic_file.hpp"
#include "config/explain.hpp"
#include "config/values.hpp"
#include "core/clock.hpp"
#include "core/text.hpp"
#include "data/documents.hpp"
#include "data/tokenizer.hpp"
#include "plan/choose/live_parameters.hpp"
#include "telemetry/memory_table.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

// Small files that take their names once everything else could be opened: what is refused changes nothing. They are for
// people to read, and the first step waits for no disk because of them.
core::result<void> write_files(const fs::path& folder, const std::vector<std::pair<const char*, std::string>>& texts,
                               const std::function<core::result<void>()>& open) {
  std::vector<checkpoint::atomic_file> files;
  for (const auto& [name, text] : texts) {
    if (text.empty()) continue;
    auto file = checkpoint::atomic_file::create(folder / name);
    if (!file) return core::fail(file.error());
    if (auto ok = file->write(text); !ok) return ok;
    files.push_back(std::move(*file));
  }
  if (auto ok = open(); !ok) return ok;
  for (auto& file : files)
    if (auto ok = file.commit(checkpoint::durability::in_time); !ok) return ok;
  return {};
}

// Makes the run's folder. What could not be started leaves no folder behind that was not there before.
// `open` makes what else is written there.
core::result<void> prepare_output(const config::loaded& c, const std::string& tiers,
                                  const std::function<core::result<void>()>& open) {
  const fs::path folder = fs::absolute(c.config.output).lexically_normal();
  std::vector<fs::path> made;  // innermost first
  std::error_code e;
  for (fs::path p = folder; !p.empty() && !fs::exists(p, e) && p != p.parent_path(); p = p.parent_path())
    made.push_back(p);
  fs::create_directories(folder, e);
  core::result<void> did = {};
  if (e)
    did = core::fail(core::error_kind::io, "output: cannot make the folder " + folder.string() + ": " + e.message());
  else
    did = write_files(folder, {{"config.yaml", config::effective_yaml(c)}, {"tiers.yaml", tiers}}, open);
  for (const char* name : {"config.yaml", "tiers.yaml"})
    if (!did && !made.empty()) fs::remove(folder / name, e);
  if (!did)
    for (const auto& p : made) fs::remove(p, e);
  return did;
}

double flops_per_token(const core::model_table& t, uint64_t tokens_of_micro_batch) {
  double flops = 0;
  for (const auto& u : t.units)
    for (const auto& s : u.segments) flops += 3 * s.forward_flops;  // backward is two products where forward is one
  return flops / double(tokens_of_micro_batch);
}

uint64_t memory_bytes(const actors::session& s) {
  uint64_t n = 0;
  for (const auto& m : s.memory()) n += m.resident.total() + m.activations_peak_bytes;
  return n;
}

/// A line that is written over on a terminal, nothing elsewhere; false once somebody wants to stop.
bool show_reading(const data::reading_progress& p, const interrupts& stop) {
  if (::isatty(STDERR_FILENO) != 0) {
    const bool done = p.bytes_done >= p.bytes;
    std::fprintf(stderr, "\r\x1b[K");
    if (!done)
      std::fprintf(stderr, "reading %s: %.0f %%", fs::path(p.file).filename().c_str(),
                   100 * double(p.bytes_done) / double(p.bytes));
    std::fflush(stderr);
  }
  return !stop.requested();
}

// The run's life after it has been opened. Keeps what the end report needs.
class run {
 public:
  run(actors::session& s, const config::loaded& c, checkpoints& saved, progress& show)
      : session_(s), config_(c.config), loaded_(c), saved_(saved), show_(show) {}

  core::result<end_summary> operator()(interrupts& stop) {
    auto end = go(stop);
    if (!end) rescue();
    return end;
  }

 private:
  /// What ended the run has left the states whole: they are saved where checkpoints are.
  void rescue() {
    if (!config_.checkpoint.is_on() || !session_.may_save()) return;
    if (auto ok = saved_.after_step(session_, checkpoints::moment::rescued); !ok)
      std::fprintf(stderr, "troupe: warning: %s\n", ok.error().text.c_str());
  }
  core::result<end_summary> go(interrupts& stop) {
    using moment = checkpoints::moment;
    const int64_t begin = core::now_ns();
    while (session_.steps_done() < config_.steps && !stop.requested()) {
      auto r = session_.step();
      if (!r) return core::fail(r.error());
      count(*r);
      show_.step(*r, memory_bytes(session_));
      if (steps_ == 1) measure_peak();  // behind the first step: nobody waits for it
      const uint64_t every = config_.evaluation.every_steps;
      if (every > 0 && r->step % every == 0 && r->step < config_.steps)
        if (auto ok = evaluate(config_.evaluation.batches, r->step); !ok) return core::fail(ok.error());
      const bool asked = stop.take_save_request() || r->save_asked;
      if (auto ok = saved_.after_step(session_, asked ? moment::asked : moment::step); !ok)
        return core::fail(ok.error());
    }
    if (steps_ > 0 || stop.terminated()) {
      const moment why = stop.terminated() ? moment::rescued : moment::end;
      if (auto ok = saved_.after_step(session_, why); !ok) return core::fail(ok.error());
    }
    show_.finish_line();
    end_.seconds = double(core::now_ns() - begin) / 1e9;
    end_.stopped = session_.steps_done() < config_.steps;
    end_.steps = session_.steps_done();
    end_.trained = steps_;
    end_.checkpoints = saved_.counts();
    if (!end_.stopped && session_.validation_tokens() > 0) {
      if (auto ok = evaluate(0, end_.steps); !ok) return core::fail(ok.error());
      end_.has_validation = true;
    }
    if (auto ok = sample(); !ok) return core::fail(ok.error());
    finish();
    return end_;
  }
  void count(const actors::step_report& r) {
    end_.skipped += r.skipped;
    end_.last_loss = r.loss;
    end_.gathers += r.lanes.gathers;
    end_.releases += r.lanes.releases;
    end_.reductions += r.lanes.reductions;
    tokens_ += double(r.tokens);
    seconds_ += r.seconds;
    ++steps_;
    const auto mean = [this](double& into, double x) { into += (x - into) / double(steps_); };
    auto& l = end_.lanes;
    mean(l.step_s, r.lanes.step_s);
    mean(l.whole_s, r.lanes.whole_s);
    mean(l.compute_s, r.lanes.compute_s);
    mean(l.communication_s, r.lanes.communication_s);
    mean(l.exposed_s, r.lanes.exposed_s);
    for (size_t i = 0; i < plan::num_lanes; ++i) mean(l.idle_s[i], r.lanes.idle_s[i]);
    telemetry::take_mean(l.io, r.lanes.io, steps_);
    telemetry::take_mean(l.control, r.lanes.control, steps_);
    telemetry::take_mean(l.work, r.lanes.work, steps_);
  }
  core::result<void> evaluate(uint64_t batches, uint64_t step) {
    auto loss = session_.evaluate(batches);
    if (!loss) return core::fail(loss.error());
    end_.validation_loss = *loss;
    show_.evaluation(step, *loss);
    return {};
  }
  core::result<void> sample() {
    data::tokenizer* const tokenizer = session_.tokenizer();
    if (config_.sample.tokens == 0 || tokenizer == nullptr) return {};
    std::vector<uint32_t> ids;
    if (auto ok = tokenizer->encode(config_.sample.prompt, ids); !ok) return core::fail(ok.error().in("sample.prompt"));
    if (ids.empty() && tokenizer->end_of_text()) ids.push_back(*tokenizer->end_of_text());  // a document begins
    auto text = session_.generate({ids.begin(), ids.end()}, config_.sample.tokens, config_.sample.temperature);
    if (!text) return core::fail(text.error());
    end_.sample = tokenizer->decode(std::vector<uint32_t>(text->begin(), text->end()));
    return {};
  }
  void measure_peak() {
    end_.peak_flops = actors::measured_matmul_flops(config_.parameter_dtype());
    show_.use_peak(end_.peak_flops * config_.parallel.ranks());
  }
  void finish() {
    end_.tokens_per_s = seconds_ > 0 ? tokens_ / seconds_ : 0;
    end_.memory = session_.memory();
    end_.peak_live_elements = plan::peak_live_parameters(session_.training_plan(0));
    end_.model_elements = session_.table().numel();
    for (const auto& u : session_.table().units) end_.units.push_back(u.name);
    end_.process_peak_bytes = telemetry::process_peak_bytes();
    end_.output_folder = config_.output.string();
    if (steps_ > 0 && config_.telemetry.trace && fs::exists(config_.output / "trace.json"))
      end_.trace_file = (config_.output / "trace.json").string();
    const auto records = session_.finish({{}, end_.seconds, config::effective_yaml(loaded_), end_.sample});
    end_.report_file = records.report_file;
    end_.communication_table = records.communication_table;
    end_.num_not_recorded = records.num_dropped;
  }

  actors::session& session_;
  const config::job_config& config_;
  const config::loaded& loaded_;
  checkpoints& saved_;
  progress& show_;
  end_summary end_;
  double tokens_ = 0, seconds_ = 0;
  uint64_t steps_ = 0;
};

/// The flags of loading as the keys that they stand for.
train_arguments with_load_keys(train_arguments a) {
  const auto key = [&a](const char* name, const std::string& value) {
    a.set.push_back(std::string("checkpoint.load.") + name + "=" + value);
  };
  if (!a.resume.empty()) key("path", config::quoted(fs::absolute(a.resume).string()));
  if (!a.tag.empty()) key("tag", config::quoted(a.tag));
  if (a.load_module_only) key("module_only", "true");
  if (a.no_load_optimizer_states) key("optimizer_states", "false");
  if (a.no_load_lr_scheduler_states) key("lr_scheduler_states", "false");
  if (a.no_load_strict) key("strict", "false");
  if (a.fallback_to_previous) key("fallback_to_previous", "true");
  if (a.changed_batch) key("changed_batch", "true");
  if (a.changed_seed) key("changed_seed", "true");
  return a;
}

int report(const core::error& e) {
  std::fprintf(stderr, "troupe: error: %s\n", e.text.c_str());
  return e.kind == core::error_kind::bad_input ? 2 : e.kind == core::error_kind::stopped ? 130 : 1;
}

actors::load_options load_options_of(const config::checkpoint_load_section& load) {
  actors::load_options out;
  if (!load.tag.empty()) out.tag = load.tag;
  out.load_module_strict = load.strict;
  out.load_optimizer_states = load.optimizer_states;
  out.load_lr_scheduler_states = load.lr_scheduler_states;
  out.load_module_only = load.module_only;
  out.fallback_to_previous = load.fallback_to_previous;
  out.changed_batch = load.changed_batch;
  out.changed_seed = load.changed_seed;
  return out;
}

/// Why a run could not be opened. Where its own checkpoint is what does not fit, nobody need have asked for that one.
core::error with_way_out(core::error e, const run_start& start) {
  if (start.own && e.kind == core::error_kind::mismatch) e.text += "; --fresh begins anew and sets it aside";
  return e;
}

// Of a job whose batches do not fit: whether its states fit either, so that nobody mends one and only then hears of the
// other. Batches say nothing of it, so the smallest are taken.
std::vector<config::key_problem> states_beyond_memory(config::job_config job) {
  job.train_micro_batch_size_per_gpu = job.gradient_accumulation_steps = 1;
  core::result<void> fits;
  const auto sized = [&fits](const job::blueprint& b) -> core::result<void> {
    fits = actors::check_memory(b);
    return core::fail(core::error_kind::stopped, "the sizes are known");
  };
  (void)job::make_blueprint(std::make_shared<const config::job_config>(std::move(job)), nullptr, nullptr,
                            {.sized = sized});
  if (fits) return {};
  return {{"", fits.error().text}};
}

}  // namespace

int train(const train_arguments& given) {
  interrupts stop(true);
  const train_arguments a = with_load_keys(given);
  auto loaded = load_configuration(a, a.steps, intent::run, config::reading::job, states_beyond_memory);
  if (!loaded) return 2;
  auto config = std::make_shared<const config::job_config>(loaded->config);
  const output_style style = a.json                         ? output_style::json
                             : a.quiet                      ? output_style::quiet
                             : ::isatty(STDOUT_FILENO) != 0 ? output_style::bar
                                                            : output_style::lines;
  actors::session_hooks hooks;
  hooks.on_warning = [](const std::string& line) { std::fprintf(stderr, "troupe: warning: %s\n", line.c_str()); };
  hooks.on_log = [style](const std::string& line) { log_line(style, line); };
  opening_display opening(a.quiet);
  hooks.on_reading = [&stop](const data::reading_progress& p) { return show_reading(p, stop); };
  hooks.on_opening = [&](const actors::opening_progress& p) {
    opening.show(p);
    return !stop.requested();
  };
  progress* shown = nullptr;
  checkpoints saved(*config, config::effective_yaml(*loaded), {a.fresh, !a.resume.empty()},
                    {hooks.on_warning, [&shown](const checkpoint_event& e) {
                       if (shown != nullptr) shown->checkpoint(e);
                     }});
  hooks.on_saved = [&saved](const actors::save_report& r) { saved.heard(r); };
  auto start = saved.choose_start();
  if (!start) return report(start.error());
  auto load = load_options_of(start->load);
  load.map = a.map;  // given beside --resume alone
  auto session = actors::session::open(
      {.config = config, .hooks = std::move(hooks), .resume = start->load.path, .load = std::move(load)});
  opening.clear();
  if (!session) {
    const int code = report(with_way_out(session.error(), *start));
    return code == 130 && stop.terminated() ? 128 + SIGTERM : code;
  }
  if (auto ok = prepare_output(*loaded, (*session)->chosen_tiers(),
                               [&] {
                                 // a run with nothing left to do leaves its curves as they are
                                 return (*session)->steps_done() < config->steps ? (*session)->open_records()
                                                                                 : core::result<void>();
                               });
      !ok)
    return report(ok.error());
  if (auto ok = saved.begin(*start, **session); !ok) return report(ok.error());
  stop.steps_begin();
  stop.on_second([&] { (*session)->stop("interrupted twice"); });

  const auto& first = (*session)->training_plan(0);
  const char* const unit = (*session)->tokens_are_bytes() ? "nats/byte" : "nats/token";
  const uint64_t tokens = config->train_micro_batch_size_per_gpu * (*session)->sequence();
  progress show(style, config->steps, flops_per_token((*session)->table(), tokens), actors::print_interval(*config),
                unit);
  shown = &show;
  if (style == output_style::bar || style == output_style::lines)
    std::printf("%llu parameters, ZeRO-%u over %u ranks, %zu instructions a step and rank, %s resident on rank 0\n",
                static_cast<unsigned long long>((*session)->table().numel()), first.options().stage,
                first.options().ranks, first.instructions.size(),
                core::human_bytes((*session)->memory()[0].resident.total()).c_str());
  if (!start->load.path.empty() && (style == output_style::bar || style == output_style::lines))
    std::printf("goes on after step %llu, from %s\n", static_cast<unsigned long long>((*session)->steps_done()),
                start->load.path.c_str());
  if ((*session)->steps_done() >= config->steps)
    std::fprintf(stderr,
                 "troupe: warning: nothing is left to train: %s is of step %llu, the run has %llu; more --steps go on, "
                 "--fresh begins anew\n",
                 start->load.path.c_str(), static_cast<unsigned long long>((*session)->steps_done()),
                 static_cast<unsigned long long>(config->steps));
  std::fflush(stdout);  // a first step may take long

  auto end = run(**session, *loaded, saved, show)(stop);
  show.finish_line();
  stop.on_second({});
  if (!end) {
    report(end.error());
    (*session)->finish({end.error(), {}, config::effective_yaml(*loaded), {}});
    return end.error().kind == core::error_kind::stopped ? 130 : 1;
  }
  const int ended_well = end->stopped && stop.terminated() ? 128 + SIGTERM : 0;
  if (!a.export_folder.empty())
    if (auto ok = (*session)->export_hugging_face(a.export_folder); !ok) return report(ok.error());
  if (a.json) {
    std::printf("%s", end_json(*end).c_str());
    return ended_well;
  }
  if (!a.quiet) std::printf("%s", end_text(*end).c_str());
  if (end->has_validation)
    std::printf("validation loss %.2f %s after %llu steps, %.0f s\n", end->validation_loss, unit,
                static_cast<unsigned long long>(end->steps), end->seconds);
  else if (end->trained == 0)
    std::printf("done after %llu steps, all of them before this run\n", static_cast<unsigned long long>(end->steps));
  else
    std::printf("%s after %llu steps, %.0f s, last loss %.4f %s\n", end->stopped ? "stopped" : "done",
                static_cast<unsigned long long>(end->steps), end->seconds,
                std::isnan(end->last_loss) ? std::fabs(end->last_loss) : end->last_loss, unit);
  return ended_well;
}

}  // namespace troupe::apps
