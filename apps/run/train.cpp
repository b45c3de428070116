#include "apps/run/train.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <sstream>
#include <string>

#include "actors/session/memory_need.hpp"
#include "actors/session/session.hpp"
#include "apps/base/checkpoints.hpp"
#include "apps/base/configuration.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/interrupts.hpp"
#include "apps/base/progress.hpp"
#include "apps/page/page.hpp"
#include "apps/page/page_access.hpp"
#include "apps/page/page_state.hpp"
#include "apps/plan/open_degrees.hpp"
#include "apps/run/ask_socket.hpp"
#include "apps/run/degrees_first.hpp"
#include "apps/run/opened_run.hpp"
#include "apps/run/opening_display.hpp"
#include "apps/run/orphan_watch.hpp"
#include "apps/run/process_address.hpp"
#include "apps/run/process_log.hpp"
#include "apps/run/processor_shares.hpp"
#include "apps/run/run_answers.hpp"
#include "apps/run/run_folder.hpp"
#include "apps/run/run_sentences.hpp"
#include "checkpoint/files/digest.hpp"
#include "cluster/process.hpp"
#include "config/explain.hpp"
#include "config/open_degrees.hpp"
#include "config/values.hpp"
#include "core/text.hpp"
#include "data/documents.hpp"
#include "job/compile.hpp"
#include "plan/stage_place.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

double flops_per_token(const core::model_table& t, uint64_t tokens_of_micro_batch) {
  double flops = 0;
  for (const auto& u : t.units)
    for (const auto& s : u.segments) flops += 3 * s.forward_flops;  // backward is two products where forward is one
  return flops / double(tokens_of_micro_batch);
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

/// The flags of loading as the keys that they stand for.
train_arguments with_load_keys(train_arguments a) {
  const auto key = [&a](const char* name, const std::string& value) {
    a.set.push_back(fmt::format("checkpoint.load.{}={}", name, value));
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
  if (a.dequantise) a.set.emplace_back("model.dequantise=true");
  return a;
}

void warn(const std::string& line) { std::fprintf(stderr, "troupe: warning: %s\n", line.c_str()); }

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
  (void)job::make_blueprint(std::make_shared<const config::job_config>(std::move(job)), {}, nullptr, {.sized = sized});
  if (fits) return {};
  return {{"", fits.error().text}};
}

output_style style_of(const train_arguments& a) {
  if (a.form == output_form::json) return output_style::json;
  if (a.verbosity == verbosity::quiet) return output_style::quiet;
  return ::isatty(STDOUT_FILENO) != 0 ? output_style::bar : output_style::lines;
}

/// The link of a process that `troupe train` has started.
std::shared_ptr<cluster::process> take_link(const config::loaded& loaded, const cluster::link_place& at) {
  const auto& c = loaded.config.cluster;
  take_processor_share(at.place, c.processes_for(loaded.config.parallel.ranks()));
  const auto digest = checkpoint::digest_of(config::effective_yaml(loaded));
  return std::make_shared<cluster::process>(
      cluster::own(at.descriptor),
      cluster::process_setup{at.place, static_cast<int64_t>(c.lost_after_s * 1e9), TROUPE_VERSION,
                             fmt::format("{:016x}{:016x}", digest.high, digest.low)});
}

/// Degrees that the job leaves open, chosen and told. The exit code where the run cannot have any.
std::optional<int> take_degrees(const train_arguments& a, config::loaded& loaded, const interrupts& stop,
                                actors::run_degrees& out) {
  if (loaded.config.open_degrees.empty()) return std::nullopt;
  opening_display display(a.verbosity);
  actors::session_options options{.config = std::make_shared<const config::job_config>(loaded.config)};
  options.hooks.on_reading = [&](const data::reading_progress& p) { return show_reading(p, stop); };
  options.hooks.on_opening = [&](const actors::opening_progress& p) {
    display.show(p);
    return !stop.requested();
  };
  auto chosen = actors::session::choose_degrees(options);
  display.clear();
  if (!chosen) {
    const int code = failed_at(chosen.error(), loaded);
    return code == 130 && stop.terminated() ? 128 + SIGTERM : code;
  }
  out = std::move(*chosen);
  config::take_degrees(out.taken, loaded);
  const auto style = style_of(a);
  if (style == output_style::bar || style == output_style::lines) {
    std::printf("%sdegrees: %s\n", out.table.c_str(), out.reason.c_str());
  } else if (style == output_style::json) {
    std::printf("{\"event\":\"degrees\",\"chosen\":%s,\"reason\":%s}\n",
                core::json_string(config::degrees_text(out.taken.parallel)).c_str(),
                core::json_string(out.reason).c_str());
  }
  std::fflush(stdout);
  return std::nullopt;
}

/// One call of `troupe train`, whose configuration is good. The steps and what follows them are opened_run's.
class training {
 public:
  training(const train_arguments& a, const config::loaded& loaded, const actors::run_degrees& degrees,
           degree_schedule schedule, std::shared_ptr<cluster::process> process, interrupts& stop)
      : arguments_(a),
        loaded_(loaded),
        degrees_(degrees),
        schedule_(std::move(schedule)),
        config_(std::make_shared<const config::job_config>(loaded.config)),
        process_(std::move(process)),
        stop_(stop),
        state_(config_->steps),
        page_state_({.folder = config_->output.string(),
                     .name = config_->file.empty() ? "run" : config_->file.stem().string(),
                     .loss_unit = {},
                     .version = TROUPE_VERSION,
                     .steps = config_->steps,
                     .memory_budget_bytes = config_->host_memory_budget}),
        style_(style_of(a)),
        opening_(a.verbosity),
        log_(process_ == nullptr ? fs::path() : fs::absolute(config_->output),
             fmt::format("process {}", process_ == nullptr ? 0 : process_->place())),
        saved_(*config_, config::effective_yaml(loaded), {a.fresh, !a.resume.empty()},
               {[this](const std::string& line) { warn(line); },
                [this](const checkpoint_event& e) {
                  if (show_) show_->checkpoint(e);
                  state_.checkpoint(e);
                  page_state_.checkpoint(e);
                }}) {}

  /// Exit code as train's.
  int operator()() {
    // One process says at once that it cannot be seen; of several, the one that leads serves the page.
    if (process_ == nullptr)
      if (auto ok = open_page(); !ok) return failed(ok.error());
    if (const auto refused = open()) return *refused;
    if (!session_->leads()) {
      if (auto served = session_->serve(); !served) return served.error().kind == core::error_kind::stopped ? 0 : 1;
      const auto& r = session_->recoveries();
      log_line(style_,
               fmt::format("process {} leads after step {}: {}", process_->place(), session_->steps_done(), r.cause));
    }
    if (const auto refused = begin()) return *refused;
    const double flops =
        flops_per_token(session_->table(), config_->train_micro_batch_size_per_gpu * session_->sequence());
    show_.emplace(style_, config_->steps, flops, actors::print_interval(*config_), unit());
    page_state_.line(size_line(*session_));
    announce(*session_, *config_, start_, style_);
    auto end = opened_run(*session_, loaded_, saved_, *show_, state_, has_page() ? &page_state_ : nullptr, schedule_,
                          [style = style_](const std::string& line) { log_line(style, line); })(stop_);
    show_->finish_line();
    state_.enter("over");
    stop_.on_second({});
    if (!end) {
      failed(end.error());
      session_->finish({end.error(), {}, config::effective_yaml(loaded_), {}});
      return end.error().kind == core::error_kind::stopped ? 130 : 1;
    }
    if (!arguments_.export_folder.empty())
      if (auto ok = session_->export_hugging_face(arguments_.export_folder); !ok) return failed(ok.error());
    say_end(*end, arguments_, unit());
    if (!schedule_.is_empty()) log_line(style_, schedule_.sentence(end->steps));
    if (process_ != nullptr) {
      const auto& r = session_->recoveries();
      if (const auto network = network_sentence(r.network, config_->cluster.hosts); !network.empty()) say(network);
      say(recovery_sentence(r, end->steps));
    }
    return end->stopped && stop_.terminated() ? terminated : 0;
  }

 private:
  static constexpr int terminated = 128 + SIGTERM;

  /// Where the run begins: the checkpoint, and how much of it is taken.
  core::result<actors::resume_choice> choose_resume(bool again) {
    auto start = saved_.choose_start(again || std::getenv(continues_variable) != nullptr);
    if (!start) return core::fail(start.error());
    start_ = std::move(*start);
    actors::resume_choice out{start_.load.path, load_options_of(start_.load)};
    out.load.map = arguments_.map;  // given beside --resume alone
    return out;
  }

  /// The session. The exit code where it is refused.
  std::optional<int> open() {
    actors::session_options options{.config = config_, .hooks = hooks(), .texts = degrees_.texts, .process = process_};
    if (process_ != nullptr) {
      options.choose_resume = [this](bool again) { return choose_resume(again); };
    } else {
      auto from = choose_resume(false);
      if (!from) return failed(from.error());
      options.resume = from->path;
      options.load = std::move(from->load);
    }
    auto session = actors::session::open(std::move(options));
    opening_.clear();
    if (!session) {
      if (process_ != nullptr) process_->fail(session.error());  // where no term has begun, the supervisor says it
      if (process_ != nullptr && !process_->leads()) return exit_code_of(session.error());
      const int code = failed(with_way_out(session.error(), start_));
      return code == 130 && stop_.terminated() ? terminated : code;
    }
    session_ = std::move(*session);
    return std::nullopt;
  }

  /// The run's folder and its checkpoints, of the process that leads. The exit code where they are refused.
  std::optional<int> begin() {
    const auto open_records = [this] {
      // a run with nothing left to do leaves its curves as they are
      return session_->steps_done() < config_->steps ? session_->open_records() : core::result<void>();
    };
    const bool is_first = session_->recoveries().terms == 0;
    if (auto ok = prepare_output(loaded_, *session_, degrees_.file, open_records); !ok) return failed(ok.error());
    if (is_first)
      if (auto ok = saved_.begin(start_, *session_); !ok) return failed(ok.error());
    state_.begin(session_->steps_done(), unit());
    page_state_.begin(unit());
    asked_ = session_.get();
    if (page_ == nullptr && has_page())
      if (auto ok = open_page(); !ok) {
        if (is_first) return failed(ok.error());
        warn("the page is not served: " + ok.error().text);  // a process that takes over lets no run end for that
      }
    stop_.steps_begin();
    stop_.on_second([this] { session_->stop("interrupted twice"); });
    if (config_->output.empty()) return std::nullopt;
    auto socket = ask_socket::open(config_->output, [this](const std::string& question) {
      return answer_of(question, state_, *session_, process_.get());
    });
    if (socket)
      questions_ = std::move(*socket);
    else
      warn("nobody can ask this run: " + socket.error().text);
    return std::nullopt;
  }
  [[nodiscard]] bool has_page() const { return !config_->cluster.page.empty(); }
  core::result<void> open_page() {
    if (!has_page()) return {};
    auto made = page::open(config_->cluster, page_state_, [this] {
      page_moment now{.phase = state_.phase(), .step = state_.steps_done(), .ranks = {}};
      if (const auto* s = asked_.load()) now.ranks = s->diagnose();
      if (process_ != nullptr) now.people = process_->people();
      return now;
    });
    if (!made) return core::fail(made.error());
    page_ = std::move(*made);
    state_.page(page_->address());
    if (style_ == output_style::json)
      std::printf("{\"event\":\"page\",\"address\":%s}\n", core::json_string(page_->address()).c_str());
    else
      log_line(style_, "page: " + page_->address());
    std::fflush(stdout);
    return {};
  }

  actors::session_hooks hooks() {
    actors::session_hooks out;
    if (has_page()) {
      out.on_spans = [this](uint64_t step, std::shared_ptr<const std::vector<telemetry::rank_spans>> ranks) {
        page_state_.spans(step, std::move(ranks));
      };
      out.on_step = [this](const actors::step_report& r) { page_state_.step(r); };
      out.on_evaluation = [this](uint64_t step, double loss) { page_state_.evaluation(step, loss); };
    }
    out.on_warning = [this](const std::string& line) { warn(line); };
    out.on_log = [this](const std::string& line) {
      page_state_.line(line);
      log_line(style_, line);
    };
    out.on_reading = [this](const data::reading_progress& p) { return show_reading(p, stop_); };
    out.on_opening = [this](const actors::opening_progress& p) {
      opening_.show(p);
      return !stop_.requested();
    };
    out.on_passes = [style = style_](const actors::passes_report& r) {
      const std::string after = "after " + std::to_string(r.steps) + " steps:";
      if (r.went_back)
        return log_line(style, fmt::format("passes {} those before again, whose step took {:.1f} ms, not {:.1f} ms",
                                           after, 1e3 * r.went_back->earlier_step_s, 1e3 * r.went_back->step_s));
      log_line(style, std::string("passes by ") + (r.measured ? "measured" : "modelled") + " times, " + after);
      std::istringstream lines(job::passes_as_text(r.compiled));
      for (std::string line; std::getline(lines, line);) log_line(style, line);
    };
    out.on_saved = [this](const actors::save_report& r) { saved_.heard(r); };
    out.on_term = [this](const actors::term_report& t) {
      page_state_.term(t);
      say(fmt::format("term {}: {} data ranks after step {}: {}; {} step{} done again, {:.2f} s", t.number, t.data,
                      t.step, t.cause, t.steps_again, t.steps_again == 1 ? "" : "s", t.lost_s));
    };
    return out;
  }
  /// Of several processes the one that leads has the console; the others say what they have to say in the log.
  void warn(const std::string& line) {
    page_state_.line("warning: " + line);
    log_.line(line);
    if (process_ == nullptr || process_->leads() || !log_.has_files()) apps::warn(line);
  }
  void say(const std::string& line) {
    page_state_.line(line);
    log_.line(line);
    log_line(style_, line);
  }
  [[nodiscard]] const char* unit() const { return session_->tokens_are_bytes() ? "nats/byte" : "nats/token"; }

  const train_arguments& arguments_;
  const config::loaded& loaded_;
  const actors::run_degrees& degrees_;
  degree_schedule schedule_;
  std::shared_ptr<const config::job_config> config_;
  std::shared_ptr<cluster::process> process_;  // null: the only one
  interrupts& stop_;
  run_state state_;
  page_state page_state_;
  const output_style style_;
  opening_display opening_;
  std::optional<progress> show_;  // from the first step on
  process_log log_;               // of several processes
  checkpoints saved_;
  run_start start_;
  std::unique_ptr<actors::session> session_;             // behind the others: it calls them until it ends
  std::unique_ptr<ask_socket> questions_;                // behind the session: it asks it
  std::atomic<const actors::session*> asked_ = nullptr;  // by the page, once its steps begin
  std::unique_ptr<page> page_;                           // last: likewise
};

}  // namespace

int train(const train_arguments& given) {
  const train_arguments a = with_load_keys(given);
  const auto link = cluster::take_link_place();
  interrupts stop(interrupts::save_requests::taken, link ? 1000 : 0);
  auto loaded = load_configuration(a, a.steps, intent::run, config::reading::job, states_beyond_memory, !link);
  if (!loaded) return 2;
  const auto open = open_degrees_of(*loaded);
  const bool chooses = std::getenv(degrees_variable) != nullptr;
  if (loaded->config.cluster.is_on() && !link && !chooses)
    return failed({core::error_kind::bad_input,
                   "cluster.processes: wanted `troupe train` with a regular file, which each process reads for itself, "
                   "got a pipe or another program"});
  actors::run_degrees degrees;
  if (const auto refused = take_degrees(a, *loaded, stop, degrees)) return *refused;
  if (const auto chosen = hand_over_degrees(open, *loaded, degrees.file)) return *chosen;
  auto schedule = degree_schedule::read(a.degrees, a, a.steps, *loaded);
  if (!schedule) return 2;
  const config::loaded& first = schedule->is_empty() ? *loaded : schedule->first();
  std::shared_ptr<cluster::process> process;
  std::optional<orphan_watch> watched;
  if (link) {
    watched.emplace(link->place);
    if (const auto own = take_own_address(first.config.cluster); !own) return failed(own.error());
    process = take_link(first, *link);
  }
  const int code = training(a, first, degrees, std::move(*schedule), process, stop)();
  if (process != nullptr) process->leave(code);
  return code;
}

}  // namespace troupe::apps
