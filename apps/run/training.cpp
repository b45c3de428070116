#include "apps/run/training.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <sstream>
#include <string>
#include <utility>

#include "apps/base/descriptors.hpp"
#include "apps/base/error_line.hpp"
#include "apps/base/exit_code.hpp"
#include "apps/base/last_catch.hpp"
#include "apps/base/load_keys.hpp"
#include "apps/base/training/checkpoints.hpp"
#include "apps/base/training/nothing_trained.hpp"
#include "apps/base/training/progress.hpp"
#include "apps/checkpoint/companions.hpp"
#include "apps/page/page.hpp"
#include "apps/page/page_access.hpp"
#include "apps/page/page_state.hpp"
#include "apps/plan/plan_costs.hpp"
#include "apps/run/asking/ask_socket.hpp"
#include "apps/run/changed_keys.hpp"
#include "apps/run/export_target.hpp"
#include "apps/run/opened_run.hpp"
#include "apps/run/opening_display.hpp"
#include "apps/run/process_log.hpp"
#include "apps/run/run_answers.hpp"
#include "apps/run/run_folder.hpp"
#include "apps/run/run_sentences.hpp"
#include "config/explain.hpp"
#include "core/dtype.hpp"
#include "core/text.hpp"
#include "job/compile.hpp"
#include "job/model/adapters.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

void warn(const std::string& line) { print_error_line("troupe: warning: " + line); }

/// Adds a remedy to the error of opening a run if the run's own checkpoint does not match, because the user may not
/// have expected that the run resumes.
core::error with_way_out(core::error e, const run_start& start) {
  if (start.own && e.kind == core::error_kind::mismatch) e.text += "; --fresh begins anew and sets it aside";
  return e;
}

class training {
 public:
  training(const train_arguments& a, const config::loaded& loaded, std::optional<job::model_of_kept> kept,
           degree_schedule schedule, std::shared_ptr<cluster::process> process, interrupts& stop, console& out)
      : arguments_(a),
        loaded_(loaded),
        kept_costs_(std::move(kept)),
        schedule_(std::move(schedule)),
        config_(std::make_shared<const config::job_config>(loaded.config)),
        process_(std::move(process)),
        stop_(stop),
        out_(out),
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
        saved_(*config_, config::effective_yaml(loaded),
               {a.fresh, !a.resume.empty(), load_keys_by_hand(loaded), a.map,
                a.tag.empty() ? origin_of_tag(loaded) : "--tag"},
               {[this](const std::string& line) { warn(line); },
                [this](const actors::save_report& e) {
                  if (show_) show_->checkpoint(e);
                  if (!e.folder.empty()) newest_ = e;
                  state_.checkpoint(e);
                  page_state_.checkpoint(e);
                }}) {
    out_.on_loss([this](const std::string& line) { log_loss(line); });
  }
  training(const training&) = delete;
  training& operator=(const training&) = delete;
  ~training() { out_.on_loss({}); }

  /// Runs the training and returns train()'s exit code. In a job of several processes an exception ends this process at
  /// once, without unwinding further: the other processes continue without it, and it must not wait for them.
  int operator()() {
    if (process_ == nullptr) return run();
    const std::string who = fmt::format("process {}: ", process_->place());
    bool has_returned = false;
    const int code = with_last_catch(
        [&] {
          const int out = run();
          has_returned = true;
          return out;
        },
        who.c_str());
    if (has_returned) return code;
    std::fflush(stdout);
    ::_exit(code);
  }

 private:
  int run() {
    // A single process reports at once that its page cannot be served; of several, the leading one serves the page.
    if (process_ == nullptr)
      if (auto ok = open_page(); !ok) return failed(ok.error());
    if (const auto refused = open()) return *refused;
    if (!session_->leads()) {
      if (auto served = session_->serve(); !served) return served.error().kind == core::error_kind::stopped ? 0 : 1;
      const auto& r = session_->recoveries();
      log_line(style_,
               fmt::format("process {} leads after step {}: {}", process_->place(), session_->steps_done(), r.cause));
    } else if (const auto& r = session_->recoveries(); r.terms > 0) {  // all processes were lost and are started again
      say(fmt::format("term {}: {} data ranks after step {}: {}", r.terms + 1, r.degrees.back().data,
                      session_->steps_done(), r.cause));
    }
    took_over_ = session_->recoveries().terms > 0;
    if (const auto refused = begin()) return *refused;
    for (const auto& [number, name] : {std::pair(STDOUT_FILENO, "output"), {STDERR_FILENO, "error"}})
      if (was_missing(number))
        log_loss(fmt::format("standard {} was closed when the run was started: nobody reads it", name));
    const double flops =
        session_->table().step_flops() / double(config_->train_micro_batch_size_per_gpu * session_->sequence());
    show_.emplace(style_, config_->steps, flops, actors::print_interval(*config_), unit());
    page_state_.line(size_line(*session_));
    for (const auto& source : session_->read_sources()) page_state_.line("data " + source);
    resumed_at_ = session_->steps_done();
    announce(*session_, *config_, start_, style_);
    auto end = opened_run(*session_, loaded_, saved_, *show_, state_, has_page() ? &page_state_ : nullptr, schedule_,
                          !arguments_.export_folder.empty(),
                          [style = style_](const std::string& line) { log_line(style, line); })(stop_);
    show_->finish_line();
    state_.enter("over");
    stop_.on_second({});
    if (!end) {
      failed(end.error());
      const auto& unsaved = saved_.unsaved();
      if (unsaved)
        failed(*unsaved);
      else if (saved_.keeps_end())
        apps::warn(saved_.what_is_safe());
      // After the last step, weights can be exported in spite of an error.
      const bool is_exported = session_->steps_done() < config_->steps || export_weights();
      session_->finish({end.error(), {}, config::effective_yaml(loaded_), {}});
      if (unsaved || !is_exported) return unkept_code;
      return exit_code_of(end.error());
    }
    const bool is_exported = export_weights();
    tell_place(*end);
    foretell(*end);
    say_end(*end, arguments_, unit());
    if (process_ == nullptr) {
      if (!schedule_.is_empty()) log_line(style_, schedule_.sentence(end->steps));
    } else {
      const auto& r = session_->recoveries();
      if (const auto network = network_sentence(r.network, config_->cluster.hosts); !network.empty()) say(network);
      say(recovery_sentence(r, end->steps, config_->parallel, took_over_));
    }
    const auto broken = saved_.broken(),
               untrained = broken ? std::nullopt : nothing_trained(*config_, end->trained, end->skipped, end->stopped);
    for (const auto& why : {saved_.unsaved(), broken, untrained})
      if (why) failed(*why);
    if (saved_.unsaved() || !is_exported) return unkept_code;
    if (broken || untrained) return 1;
    return end->stopped && stop_.requested() ? stopped_code() : 0;
  }

  /// Exports the weights and config.json.
  core::result<void> export_to(const fs::path& folder) {
    TROUPE_TRY(session_->export_hugging_face(folder.string()));
    exported_ = folder;
    return {};
  }
  /// Copies the files next to the model that the run began with, such as those of its tokenizer, to the exported
  /// weights. Returns false if that fails.
  [[nodiscard]] bool complete_export() const {
    const auto copied = copy_companions(*config_, exported_);
    if (copied && !copied->empty()) apps::warn("--export: " + *copied);
    if (copied) return true;
    failed({copied.error().kind,
            fmt::format("--export: the weights are in '{}', but not all files next to the model that the run began "
                        "with: {}; copy them by hand",
                        exported_.string(), copied.error().text)});
    return false;
  }

  /// Stores the predicted step in `end`, beside what was measured, or why there is none.
  void foretell(end_summary& end) const {
    const uint32_t ranks = session_->training_plan(0).options().ranks();
    if (end.trained == 0) return;
    end.not_foretold = not_foretold_text(ranks);
    if (!end.not_foretold.empty()) return;
    const auto costs = costs_by(kept_costs_, *config_);
    std::vector<std::shared_ptr<const plan::rank_plan>> plans;  // the session owns them
    for (uint32_t r = 0; r < ranks; ++r) plans.emplace_back(std::shared_ptr<void>(), &session_->training_plan(r));
    uint64_t bytes = 0;
    // The plan of a step without a checkpoint is predicted, so that staging for checkpoints is on neither side.
    for (const auto& m : end.memory) bytes += m.resident.total() - m.resident.staging + m.activations_peak_bytes;
    end.step_foretold =
        compared(figures_of(plan::predict(plans, costs.costs)), end.steps_to_compare, bytes, costs.source);
  }

  /// Stores the folder of the trained model in `end`, and the command that uses the model or resumes the run.
  void tell_place(end_summary& end) const {
    end.loss_unit = unit();
    std::string newest;
    uint64_t step = 0;
    if (newest_) {
      newest = newest_->folder.string();
      step = newest_->step;
    } else if (session_->steps_done() == resumed_at_) {
      newest = fs::path(start_.load.path).string();
      step = resumed_at_;
    }
    if (end.broken) {  // no command below is of use; the error of the run names the checkpoints
      const auto good = saved_.newest_unbroken();
      end.model_place = good ? good->folder.string() : exported_.string();
      return;
    }
    end.model_place = exported_.empty() ? newest : exported_.string();
    if (end.stopped && !newest.empty())
      end.next_command = fmt::format("the same command resumes after step {}", step);
    else if (config_->lora.given)
      end.next_command = command_for_adapter(newest);
    else if (!exported_.empty())
      end.next_command = fmt::format("troupe checkpoint to-gguf {} model.gguf", shell_word(exported_.string()));
    else if (!newest.empty() && config_->checkpoint.exclude_frozen_parameters && has_frozen())
      end.next_command = "the same command with --export FOLDER writes the whole model, with its frozen parameters";
    else if (!newest.empty())
      end.next_command = fmt::format("troupe checkpoint to-hf {} {}", shell_word(newest),
                                     shell_word((config_->output / "hf").string()));
  }
  /// Returns the command that merges the exported adapter into its base, or that writes the adapter of the checkpoint
  /// `newest`; empty if there is neither.
  [[nodiscard]] std::string command_for_adapter(const std::string& newest) const {
    if (!exported_.empty() && !config_->model.path.empty())
      return fmt::format("troupe checkpoint merge-adapter {} {} {}", shell_word(config_->model.path.string()),
                         shell_word(exported_.string()), shell_word((config_->output / "hf").string()));
    if (!exported_.empty() || newest.empty()) return {};
    return fmt::format("troupe checkpoint to-peft {} {}", shell_word(newest),
                       shell_word((config_->output / "adapter").string()));
  }
  /// True if the model has parameters that are not trained.
  [[nodiscard]] bool has_frozen() const {
    return std::ranges::any_of(session_->table().parameters,
                               [](const auto& p) { return !p.trainable && !p.of_teacher; });
  }
  static std::string shell_word(const std::string& text) {
    const bool is_plain = std::ranges::all_of(text, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             std::string_view("/._-+=:,@%").find(c) != std::string_view::npos;
    });
    if (is_plain && !text.empty()) return text;
    std::string out = "'";
    for (const char c : text) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return out + "'";
  }

  /// Chooses the checkpoint that the run begins from, and which parts of it are loaded.
  core::result<actors::resume_choice> choose_resume(bool again) {
    TROUPE_ASSIGN(auto start, saved_.choose_start(again || std::getenv(continues_variable) != nullptr));
    start_ = std::move(start);
    actors::resume_choice out{start_.load.path, load_options_of(start_.load)};
    out.load.map = start_.map;
    return out;
  }

  /// Opens the session. Returns the exit code if it is refused.
  std::optional<int> open() {
    actors::session_options options{
        .config = config_, .hooks = hooks(), .kept_costs = kept_costs_, .process = process_};
    options.serves_page = has_page();
    if (process_ != nullptr) {
      options.choose_resume = [this](bool again) { return choose_resume(again); };
      options.file = schedule_.file();
    } else {
      auto from = choose_resume(false);
      if (!from) return failed(from.error());
      options.resume = from->path;
      options.load = std::move(from->load);
    }
    auto session = actors::session::open(std::move(options));
    opening_.clear();
    if (!session) {
      if (process_ != nullptr) process_->fail(session.error());  // before the first term, the supervisor reports it
      if (process_ != nullptr && !process_->leads()) return exit_code_of(session.error());
      return failed(with_way_out(session.error(), start_));
    }
    session_ = std::move(*session);
    return std::nullopt;
  }

  /// If `--export` names a folder, exports the weights to it, with the files that were next to the model from which the
  /// run began. Weights whose loss is not finite are not exported. Returns false if the export fails; if the weights
  /// cannot be written there, tries to write them into the run's folder, and prints where they are.
  bool export_weights() {
    const fs::path wanted = arguments_.export_folder;
    if (wanted.empty()) return true;
    if (saved_.broken()) {
      warn(fmt::format("--export {}: not written, because the loss of these weights is not finite", wanted.string()));
      return true;
    }
    const auto exported = export_to(wanted);
    if (exported) return complete_export();
    const fs::path beside = fs::absolute(config_->output).lexically_normal() / "export";
    const auto instead = export_to(beside);
    const auto why = exported.error().in(fmt::format("--export {}", wanted.string()));
    failed({why.kind, fmt::format("{}; {}", why.text,
                                  instead ? fmt::format("the weights are in '{}' instead", beside.string())
                                          : fmt::format("nor can they be written to '{}': {}; {}", beside.string(),
                                                        instead.error().text, saved_.what_is_safe()))});
    if (instead) (void)complete_export();
    return false;
  }

  /// Warns about keys that decide what is trained and have other values than in the run that this one continues.
  void say_changes() {
    const uint64_t done = session_->steps_done();
    if (done == 0 || done >= config_->steps) return;
    const auto changed = changed_keys(session_->configuration_before(), loaded_);
    if (!changed.empty())
      warn(fmt::format("continues the run of '{}' at step {} with other settings: {}", start_.load.path.string(), done,
                       shown_changes(changed)));
  }

  /// Prepares the run's folder and its checkpoints, in the leading process. Returns the exit code if they are refused.
  std::optional<int> begin() {
    const auto open_records = [this] {
      // A run without steps left does not open its record files, so that they stay unchanged.
      return session_->steps_done() < config_->steps ? session_->open_records() : core::result<void>();
    };
    const bool is_first = session_->recoveries().terms == 0;
    if (is_first && start_.own && session_->steps_done() >= config_->steps)
      if (auto ok = check_same_job(session_->configuration_before(), start_.load.path, session_->steps_done(), loaded_);
          !ok)
        return failed(ok.error());
    if (is_first) say_changes();
    if (is_first && !arguments_.export_folder.empty()) {
      const std::array<read_weights, 4> read{
          {{"model.path", config_->model.path},
           {"model.teacher", config_->model.teacher},
           {"lora.from", config_->lora.from},
           {arguments_.resume.empty() ? "checkpoint.load.path" : "--resume", start_.load.path}}};
      const uint64_t bytes = config_->lora.given ? job::adapter_bytes(session_->table())
                                                 : session_->table().numel() * core::size_of(core::dtype::f32);
      if (auto ok = check_export(arguments_.export_folder, bytes, read); !ok) return failed(ok.error());
    }
    const auto claim = [this, is_first] {
      auto claimed = saved_.claim_output();
      // the process that led the run before and was lost may still hold the lock
      return claimed || is_first ? claimed : core::result<void>();
    };
    if (auto ok = prepare_output(loaded_, *session_, claim, open_records); !ok) return failed(ok.error());
    if (!is_first)
      saved_.take_over(*session_);
    else if (auto ok = saved_.begin(start_, *session_); !ok)
      return failed(ok.error());
    state_.begin(session_->steps_done(), unit());
    page_state_.begin(unit());
    asked_ = session_.get();
    if (page_ == nullptr && has_page())
      if (auto ok = open_page(); !ok) {
        if (is_first) return failed(ok.error());
        // If this process has taken over the run from a lost one, the run continues without the page.
        warn("the page is not served: " + ok.error().text);
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
      warn("this run cannot be asked for its state: " + socket.error().text);
    return std::nullopt;
  }
  [[nodiscard]] bool has_page() const { return !config_->cluster.page.empty(); }
  core::result<void> open_page() {
    if (!has_page()) return {};
    TROUPE_ASSIGN(auto made, page::open(config_->cluster, page_state_, [this] {
                    page_moment now{.phase = state_.phase(), .step = state_.steps_done(), .ranks = {}};
                    if (const auto* s = asked_.load()) now.ranks = s->diagnose();
                    if (process_ != nullptr) now.people = process_->people();
                    return now;
                  }));
    page_ = std::move(made);
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
      log_line(style, fmt::format("passes after {} steps:", r.steps));
      std::istringstream lines(job::passes_as_text(r.compiled));
      for (std::string line; std::getline(lines, line);) log_line(style, line);
    };
    out.on_saved = [this](const actors::save_report& r) { saved_.note_save(r); };
    out.on_step_again = [this](const actors::step_report& r) {
      if (show_) show_->step_again(r);
    };
    out.on_slow_link = [this](const actors::slow_link_report& x) {
      if (show_) show_->slow_link(x);
    };
    out.on_term = [this](const actors::term_report& t) {
      page_state_.term(t);
      if (show_) show_->term(t);
      say(fmt::format("term {}: {} data ranks after step {}: {}; {} step{} done again, {:.2f} s", t.number, t.data,
                      t.step, t.cause, t.steps_again, t.steps_again == 1 ? "" : "s", t.lost_s));
    };
    return out;
  }
  /// Prints a warning: the leading process to the console and the log, other processes to the log.
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
  /// Logs that output is lost. A run of one process opens a log only for such messages.
  void log_loss(const std::string& line) {
    page_state_.line("warning: " + line);
    if (process_ != nullptr || config_->output.empty()) return log_.line(line);
    process_log(fs::absolute(config_->output), "run").line(line);
  }
  [[nodiscard]] const char* unit() const { return session_->tokens_are_bytes() ? "nats/byte" : "nats/token"; }

  const train_arguments& arguments_;
  const config::loaded& loaded_;
  const std::optional<job::model_of_kept> kept_costs_;
  degree_schedule schedule_;
  std::shared_ptr<const config::job_config> config_;
  std::shared_ptr<cluster::process> process_;  // link to the job's other processes; null in a job of one process
  interrupts& stop_;
  console& out_;
  run_state state_;
  page_state page_state_;
  const output_style style_;
  opening_display opening_;
  std::optional<progress> show_;  // progress display; set before the first step
  process_log log_;               // writes the events of this process to a log; used only in a job of several processes
  checkpoints saved_;
  run_start start_;
  std::optional<actors::save_report> newest_;  // the newest checkpoint that this call has written
  fs::path exported_;                          // folder to which --export has written the weights
  uint64_t resumed_at_ = 0;                    // number of steps before the first step of this call
  bool took_over_ = false;                     // true: another process, which was lost, led the job before this one
  std::unique_ptr<actors::session> session_;   // declared after the members that its hooks use
  std::unique_ptr<ask_socket> questions_;      // declared after the session, which its thread reads
  // The session, for answers of the page; null until the run begins
  std::atomic<const actors::session*> asked_ = nullptr;
  std::unique_ptr<page> page_;  // declared last, because its thread uses the other members
};

}  // namespace

int run_training(const train_arguments& a, const config::loaded& loaded, std::optional<job::model_of_kept> kept,
                 degree_schedule schedule, std::shared_ptr<cluster::process> process, interrupts& stop, console& out) {
  return training(a, loaded, std::move(kept), std::move(schedule), std::move(process), stop, out)();
}

}  // namespace troupe::apps
