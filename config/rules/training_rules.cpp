// Rules between keys of the optimizer, the learning rate, parameter groups and data: the defaults of each type of
// optimizer or scheduler, and the numbers that it reads and requires. All other rules are in resolve.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <re2/re2.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>

#include "config/document/path_text.hpp"
#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"
#include "core/tokenizer_kinds.hpp"

namespace troupe::config {
namespace {

class training : key_rules {
 public:
  training(const settings& given, job_config& config, reporter& report, origins& derived, purpose why)
      : key_rules(given, config, report, derived),
        job_(why != purpose::deepspeed),
        has_text_(why == purpose::job),
        is_hosts_(why == purpose::host_job) {}

  void all() {
    items_are_whole();
    if (has_text_) {
      texts();
      validation();
      question();
    }
    config_.ema.given |= given_.mappings.contains("ema");
    groups();
    optimizer();
    scheduler();
    if (is_hosts_) losses_of_a_host();
    losses_of_a_teacher();
  }

 private:
  [[nodiscard]] bool has(std::string_view key) const { return value_of(key) != nullptr || given_.was_refused(key); }

  /// Checks that every item of a list has its required keys.
  void items_are_whole() {
    for (const key_info& row : key_table()) {
      if (!row.required || !row.in_list()) continue;
      const std::string list(row.list_name());
      const auto it = given_.lists.find(list);
      for (size_t i = 0; it != given_.lists.end() && i < it->second; ++i)
        if (const std::string item = fmt::format("{}[{}]", list, i), key = fmt::format("{}.{}", item, row.name());
            !has(key) && !given_.was_refused(item))
          error(key, fmt::format("wanted {}, got nothing: every item of {} needs it", wanted(row), list));
    }
  }

  void texts() {
    data_section& d = config_.data;
    const auto list = given_.lists.find("data.sources");
    const bool listed = list != given_.lists.end();
    std::string_view only;  // the short form that is given; empty: none
    for (const auto& [key, path] : short_forms(d)) {
      if (!has(key)) continue;
      if (listed) error(key, "cannot be combined with data.sources: remove one of the two");
      if (!only.empty())
        error(key, fmt::format("cannot be combined with {}: remove one of the two, or list both in data.sources, each "
                               "with its form",
                               only));
      only = only.empty() ? key : only;
    }
    if (listed && list->second == 0) error("data.sources", "wanted a list of at least one source, got []");
    if (!listed && only.empty() && !given_.was_refused("data") && !given_.was_refused("data.sources"))
      error("data.text", "wanted a path (or data.sources), got nothing: the key is required");
    if (!listed) d.sources = {{d.text, 1, d.text_key}};
    for (const auto& [key, path] : short_forms(d))
      if (!listed && key == only) d.sources = {{*path, 1, d.text_key, std::string(key.substr(key.find('.') + 1))}};
    for (data_source& source : d.sources)
      if (source.text_key.empty()) source.text_key = source.form == "text" ? d.text_key : data_section{}.text_key;
    validation_sets();
    samples(listed);
    const setting* tokenizer = value_of("data.tokenizer");
    if (tokenizer == nullptr || d.tokenizer == "bytes" || d.tokenizer == "bytes-as-ids") return;
    const auto& folder = report_.sources.at(tokenizer->at.source).folder;
    d.tokenizer_path = (folder / d.tokenizer).lexically_normal();
    std::error_code failure;
    if (d.tokenizer.empty() || !std::filesystem::exists(d.tokenizer_path, failure))
      error("data.tokenizer", fmt::format("wanted bytes, bytes-as-ids, or the path of {}, got {}, which does not exist",
                                          core::tokenizer_kinds, d.tokenizer_path.string()));
  }

  /// Resolves the paths of validation sets, and gives sets without a form that of the sources, which must have one in
  /// common.
  void validation_sets() {
    constexpr std::string_view key = "data.validation";
    const setting* given = value_of(key);
    auto& sets = config_.data.validation;
    if (given == nullptr || sets.size() != given->value->entries.size()) return;  // a refused value is incomplete
    const auto& sources = config_.data.sources;
    for (size_t i = 0; i < sets.size(); ++i) {
      if (sets[i].text.empty()) continue;  // refused
      const node& value = *given->value->entries[i].value;
      const node& path = value.kind == node_kind::mapping ? *value.find("text") : value;
      const auto& folder = report_.sources.at(path.at.source).folder;
      auto expanded = expanded_path(path.text, folder);
      if (!expanded) {
        error(key, fmt::format("the set {}: {}", sets[i].name, expanded.error()));
        continue;
      }
      sets[i].text = (folder / *expanded).lexically_normal();
      if (sets[i].form.empty() && !sources.empty()) {
        sets[i].form = sources.front().form;
        if (!std::ranges::all_of(sources, [&](const data_source& s) { return s.form == sets[i].form; }))
          error(key, fmt::format("the set {} needs its form ({{text: PATH, form: FORM}}), because the sources have "
                                 "several",
                                 sets[i].name));
      }
      const std::string common = data_section{}.text_key;
      const bool has_fixed_columns = sets[i].form == "instruct" || sets[i].form == "labelled";
      if (has_fixed_columns && !sets[i].text_key.empty() && sets[i].text_key != common)
        error(key, fmt::format("the set {}: the columns of the form {} have fixed names; remove text_key, got {}",
                               sets[i].name, sets[i].form, config::quoted(sets[i].text_key)));
      // data.text_key is the key of texts, and of the one source that a short form gives.
      const bool is_as_source =
          config_.data.has_short_form() && !sources.empty() && sets[i].form == sources.front().form;
      if (sets[i].text_key.empty())
        sets[i].text_key = sets[i].form == "text" || is_as_source ? config_.data.text_key : common;
    }
  }

  /// Refuses packed samples that would attend to each other: in a set next to texts, for which document_mask is false
  /// by default.
  void packed_sets() {
    const data_section& d = config_.data;
    if (d.document_mask || d.packing == "none" || value_of("data.document_mask") != nullptr) return;
    for (const validation_set& one : d.validation)
      if (one.form == "chat" || one.form == "instruct" || one.form == "labelled")
        error("data.validation", fmt::format("the set {} has the form {}, whose samples share rows: set "
                                             "data.document_mask, or data.packing: none",
                                             one.name, one.form));
  }

  struct short_form {
    std::string_view key;
    const std::filesystem::path* path;
  };
  static std::array<short_form, 4> short_forms(const data_section& d) {
    return {{{"data.text", &d.text},
             {"data.chat", &d.chat},
             {"data.instruct", &d.instruct},
             {"data.labelled", &d.labelled}}};
  }

  /// Applies the rules of sources whose samples are more than a text. Their rows are packed, so that attention stays
  /// within a sample unless data.document_mask says otherwise.
  void samples(bool listed) {
    data_section& d = config_.data;
    const std::string common = data_section{}.text_key;
    for (size_t i = 0; i < d.sources.size(); ++i)
      if (const auto& one = d.sources[i]; (one.form == "instruct" || one.form == "labelled") && one.text_key != common)
        error(listed ? fmt::format("data.sources[{}].text_key", i) : "data.text_key",
              fmt::format("no effect: the columns of the form {} have fixed names; remove this key, got {}", one.form,
                          quoted(one.text_key)));
    constexpr std::string_view mask = "data.document_mask";
    if (has_form(d, "chat", "instruct") || has_form(d, "labelled"))
      if (value_of(mask) == nullptr && !given_.was_refused(mask)) {
        d.document_mask = true;
        derived_.emplace(mask, "derived");
      }
    packed_sets();
    const setting* chat = value_of("data.chat_template");
    if (chat == nullptr || !d.chat_template.ends_with(".jinja")) return;
    const auto file = (report_.sources.at(chat->at.source).folder / d.chat_template).lexically_normal();
    std::error_code failure;
    if (!std::filesystem::is_regular_file(file, failure))
      error("data.chat_template",
            fmt::format("wanted a file with a template, got {}, which does not exist", file.string()));
    d.chat_template = file.string();
  }

  /// Refuses a question beside a prompt, and one of a run that has no chat template.
  void question() {
    constexpr std::string_view key = "sample.question";
    if (config_.sample.question.empty()) return;
    if (has("sample.prompt")) error(key, "cannot be combined with sample.prompt: remove one of the two");
    if (!has_form(config_.data, "chat", "instruct") && !given_.was_refused("data"))
      error(key,
            "wanted conversations or prompts to train on (data.chat, data.instruct), whose template renders the "
            "question, got other data: write the text's beginning as sample.prompt");
  }

  /// Refuses evaluations between steps for which no part of the text is held out.
  void validation() {
    constexpr std::string_view key = "evaluation.every_steps", part = "data.validation_fraction";
    const uint64_t every = config_.evaluation.every_steps;
    if (config_.data.has_validation() || given_.was_refused(part) || given_.was_refused("data.validation") ||
        given_.was_refused("data"))
      return;
    if (every > 0 && every < config_.steps)
      error(key, fmt::format("requires a part of the text that is never trained on; set {}, such as 0.05, or "
                             "data.validation, or remove this key, got {}",
                             part, every));
  }

  /// Calls f(key) for each key that changes the loss in training and has another value than its default.
  void each_change_of_the_loss(auto f) const {
    if (config_.loss.label_smoothing != 0) f("loss.label_smoothing");
    if (config_.loss.z_loss != 0) f("loss.z_loss");
    if (config_.loss.logit_soft_cap != 0) f("loss.logit_soft_cap");
  }
  void losses_of_a_host() const {
    each_change_of_the_loss(
        [&](const char* key) { error(key, "a host program's modules compute their own loss; remove this key"); });
  }
  void losses_of_a_teacher() const {
    if (!config_.distillation.enabled) return;
    each_change_of_the_loss([&](const char* key) {
      error(key, "cannot be combined with distillation, whose terms are the loss; remove one of the two");
    });
  }

  void groups() {
    for (size_t i = 0; i < config_.parameter_groups.size(); ++i) {
      const std::string& pattern = config_.parameter_groups[i].match;
      const std::string key = fmt::format("parameter_groups[{}].match", i);
      if (value_of(key) == nullptr) continue;
      RE2::Options quiet;
      quiet.set_log_errors(false);
      const RE2 compiled(pattern, quiet);
      if (!compiled.ok())
        error(key, fmt::format("wanted a pattern as RE2 reads it, got {}: {}", quoted(pattern), compiled.error()));
    }
  }

  /// Reaction to a given key that the chosen optimizer or scheduler does not read.
  enum class unread : uint8_t { refused, warned };

  /// Fills in the defaults that differ for the chosen type; reports given numbers that it does not read, and missing
  /// ones that it requires.
  void params_of(const std::string& section, std::string_view type, unread as) {
    for (const key_info& row : key_table()) {
      if (row.section() != section + ".params") continue;
      const setting* s = value_of(row.key);
      if (s != nullptr && !row.read_by(type)) {
        not_read(row, *s, type, as);
        continue;
      }
      if (has(row.key) || derived_.contains(row.key)) continue;
      for (const auto& [of, text] : row.types.defaults)
        if (of == type) by_default(row, type, std::string(text));
      if (std::ranges::find(row.types.needed_by, type) != row.types.needed_by.end() &&
          (job_ || !given_.is_auto(row.key)))
        error(row.key, fmt::format("wanted {}, got nothing: {} needs it", wanted(row), type));
    }
  }

  void not_read(const key_info& row, const setting& s, std::string_view type, unread as) {
    std::string nearest;
    size_t least = SIZE_MAX;
    for (const key_info& other : key_table())
      if (other.section() == row.section() && other.read_by(type) && other.support.refusal.empty())
        if (const size_t distance = edits(row.name(), other.name()); distance < least) {
          least = distance;
          nearest = other.key;
        }
    const std::string text = fmt::format("a key of {}, not of {}; the most similar key of {} is {}",
                                         fmt::join(row.types.readers, ", "), type, type, nearest);
    if (as == unread::warned)
      report_.warn(s.name_at, row.key, "no effect: " + text);
    else
      report_.error(s.name_at, row.key, text);
  }

  void by_default(const key_info& row, std::string_view type, const std::string& text) {
    const bool list = row.type == value_type::number_list;
    const document read = list ? read_yaml(text, 0) : document{make_scalar(node_kind::plain, text, {}), {}};
    store(row, *read.root, {}, config_);
    derived_[row.key] = fmt::format("default of {}", type);
  }

  void optimizer() {
    using rule = core::optimizer_type;
    auto& o = config_.optimizer;
    if (const setting* type = value_of("optimizer.type");
        given_.was_refused("optimizer.type") || (type != nullptr && type->held_back))
      return;
    // DeepSpeed passes to Muon only the numbers that Muon reads, and to every other optimizer all given numbers.
    params_of("optimizer", core::name_of(o.type), o.type == rule::muon ? unread::warned : unread::refused);
    if (o.type == rule::adamw && !o.adam_w_mode) {
      report_.warn(given_.where("optimizer.params.adam_w_mode"), "optimizer.params.adam_w_mode",
                   "no effect: AdamW always decouples weight decay; write type: Adam for L2");
      o.adam_w_mode = true;
      derived_["optimizer.params.adam_w_mode"] = "derived";
    }
    if (o.type == rule::sgd && o.nesterov && (o.momentum == 0 || o.dampening != 0))
      error("optimizer.params.nesterov",
            fmt::format("true: wanted a momentum above 0 and dampening 0, got {} and {}", o.momentum, o.dampening));
    if (o.type == rule::lamb && o.min_coeff > o.max_coeff)
      error("optimizer.params.min_coeff",
            fmt::format("wanted a number of at most max_coeff, which is {}, got {}", o.max_coeff, o.min_coeff));
    if (o.type == rule::muon && !has("optimizer.params.lr") && !o.adam_lr) {
      o.adam_lr = muon_adam_lr;
      derived_["optimizer.params.adam_lr"] = "default of muon";
    }
  }

  void scheduler() {
    using curve = core::schedule_type;
    auto& s = config_.scheduler;
    if (const setting* type = value_of("scheduler.type"); type != nullptr && type->held_back) return;
    if (given_.was_refused("scheduler.type")) return;
    if (s.type == curve::constant) {
      for (const auto& [key, given] : given_.given)
        if (key.starts_with("scheduler.params.") && given.value != nullptr) {
          error("scheduler.type", fmt::format("wanted {}, because scheduler.params is given, got nothing",
                                              wanted(*key_named("scheduler.type"))));
          return;
        }
      return;
    }
    for (const char* key : {"total_num_steps", "T_max", "num_training_steps"}) until_the_end(key);
    if (s.type == curve::warmup_decay && given_.is_auto("scheduler.params.warmup_max_lr")) {
      const auto& o = config_.optimizer;
      s.warmup_max_lr = o.type == core::optimizer_type::muon ? o.muon_lr.value_or(o.lr) : o.lr;
      derived_["scheduler.params.warmup_max_lr"] = "derived";
    }
    if (s.type == curve::warmup_decay && !s.warmup_max_lr && has("optimizer.params.lr") &&
        config_.optimizer.lr != warmup_decay_rate)
      report_.warn(given_.where("scheduler.params"), "scheduler.params.warmup_max_lr",
                   fmt::format("not given: WarmupDecayLR rises to {}, as in DeepSpeed, and not to optimizer.params.lr; "
                               "set it to auto for the optimizer's rate",
                               warmup_decay_rate));
    params_of("scheduler", core::name_of(s.type), unread::refused);
    if (s.type == curve::warmup_stable_decay && !stages()) return;
    if (job_ && ends_early()) return;
    if (s.total_num_steps != 0 && s.total_num_steps < s.warmup_num_steps &&
        key_named("scheduler.params.total_num_steps")->read_by(core::name_of(s.type)))
      report_.warn(
          given_.where("scheduler.params.total_num_steps"), "scheduler.params.total_num_steps",
          fmt::format("less than warmup_num_steps {}: the learning rate never comes down", s.warmup_num_steps));
    else
      warms_up_to_the_end();
    if (s.type == curve::one_cycle) one_cycle();
  }

  /// Warns about a learning-rate curve that reaches its end long before the run does, and is 0 from there on or rises
  /// again; returns true if it does. In step n the curve has moved n - 1 times, as in PyTorch; the warm-up curves of
  /// DeepSpeed move one step later. A curve whose last value is meant for the last step alone causes no warning.
  bool ends_early() {
    using curve = core::schedule_type;
    const auto& s = config_.scheduler;
    const uint64_t warmup = std::max<uint64_t>(2, s.warmup_num_steps);
    std::string_view key = "scheduler.params.total_num_steps";
    uint64_t end = 0;  // the first step with the curve's last value, counted from 1; 0: that value is not 0
    if (s.type == curve::warmup_decay && s.warmup_min_lr == 0) end = std::max(s.total_num_steps, warmup) + 2;
    if (s.type == curve::warmup_cosine && s.cos_min_ratio == 0) end = std::max(s.total_num_steps, warmup + 1) + 1;
    const auto sum = [](uint64_t a, uint64_t b) { return a > UINT64_MAX - b ? UINT64_MAX : a + b; };
    const bool falls_to_0 =
        (s.type == curve::linear && s.end_factor == 0) || (s.type == curve::polynomial && s.power > 0);
    if (falls_to_0) {
      key = "scheduler.params.total_iters";
      end = sum(sum(s.num_warmup_steps, s.total_iters), 1);
    }
    const bool rises = s.type == curve::cosine_annealing;
    if (rises) {
      key = "scheduler.params.T_max";
      end = sum(sum(s.num_warmup_steps, s.t_max), 1);
    }
    if (s.type == curve::cosine_with_restarts || (s.type == curve::warmup_stable_decay && s.min_lr_ratio == 0)) {
      key = "scheduler.params.num_training_steps";
      end = sum(std::max(s.num_training_steps, s.num_warmup_steps), 1);
    }
    if (end == 0 || end >= config_.steps || given_.was_refused(key)) return false;
    const std::string what =
        rises ? fmt::format("falls to {} at step {} of {} and rises again", s.eta_min, end, config_.steps)
              : fmt::format("is 0 from step {} of {} on", end, config_.steps);
    warn(key, fmt::format("the learning rate {}; set it to {} to span the whole run", what,
                          falls_to_0 ? fmt::to_string(config_.steps - s.num_warmup_steps) : "auto"));
    return true;
  }

  /// Checks that the stages of warmup_stable_decay are not longer than the whole, and warns about a run that ends
  /// before the last stage; returns false if an error was reported.
  bool stages() {
    constexpr std::string_view key = "scheduler.params.num_training_steps";
    const auto& s = config_.scheduler;
    for (const char* name : {"num_training_steps", "num_decay_steps", "num_warmup_steps"})
      if (given_.was_refused(fmt::format("scheduler.params.{}", name))) return false;
    if (s.num_training_steps == 0 || s.num_decay_steps == 0) return true;
    if (s.num_decay_steps > s.num_training_steps || s.num_training_steps - s.num_decay_steps < s.num_warmup_steps) {
      error(key, fmt::format("wanted at least num_warmup_steps plus num_decay_steps, which are {} and {}, got {}",
                             s.num_warmup_steps, s.num_decay_steps, s.num_training_steps));
      return false;
    }
    // In step n the curve has moved n - 1 times; its first lower value comes one move after the last stage begins.
    const uint64_t constant = s.num_training_steps - s.num_decay_steps;
    if (job_ && config_.steps > 0 && config_.steps - 1 <= constant)
      warn(key, fmt::format("the learning rate never comes down: it is constant up to step {}, and the run has {}",
                            constant + 1, config_.steps));
    return true;
  }

  /// Warns about a warm-up that takes longer than the run.
  void warms_up_to_the_end() {
    const auto& s = config_.scheduler;
    if (!job_ || config_.steps == 0) return;
    const auto warn_if_longer = [&](std::string_view key, uint64_t steps) {
      if (steps <= config_.steps || given_.was_refused(key) || !key_named(key)->read_by(core::name_of(s.type))) return;
      warn(key, fmt::format("the learning rate never reaches its highest value: the warm-up takes {} steps{}, and the "
                            "run has {}",
                            steps, value_of(key) == nullptr ? " by default" : "", config_.steps));
    };
    warn_if_longer("scheduler.params.warmup_num_steps", s.warmup_num_steps);
    warn_if_longer("scheduler.params.num_warmup_steps", s.num_warmup_steps);
  }

  /// Warns about keys of OneCycle that act in the second half of the cycle, or after it, if the run ends before. In
  /// step n the curve has moved n - 1 times, and the first move belongs to the second step.
  void behind_the_cycle() {
    const auto& s = config_.scheduler;
    if (!job_ || config_.steps == 0) return;
    const auto warn = [&](std::string_view name, std::string_view when, uint64_t after) {
      const std::string key = fmt::format("scheduler.params.{}", name);
      if (value_of(key) != nullptr)
        report_.warn(given_.where(key), key,
                     fmt::format("no effect: it acts {} of OneCycle, which takes {} steps, and the run has {}", when,
                                 after, config_.steps));
    };
    const uint64_t moves = config_.steps - 1, first = s.cycle_first_step_size;
    const uint64_t second = s.cycle_second_step_size.value_or(first);
    if (first >= moves) {
      if (second != first) warn("cycle_second_step_size", "after the first half", first);
      if (s.cycle_second_stair_count.value_or(s.cycle_first_stair_count) != s.cycle_first_stair_count)
        warn("cycle_second_stair_count", "after the first half", first);
    }
    const uint64_t cycle = first > UINT64_MAX - second ? UINT64_MAX : first + second;
    if (cycle >= moves && s.decay_step_size > 0) warn("decay_step_size", "after the cycle", cycle);
  }

  /// Sets the length of a learning-rate curve that is `auto` to the length of the run; T_max does not count the steps
  /// of a linear warm-up before the curve.
  void until_the_end(const std::string& name) {
    const std::string key = "scheduler.params." + name;
    auto& s = config_.scheduler;
    if (!job_ || !given_.is_auto(key) || !key_named(key)->read_by(core::name_of(s.type))) return;
    const uint64_t before = name == "T_max" ? s.num_warmup_steps : 0;
    const uint64_t length = config_.steps > before ? config_.steps - before : std::min<uint64_t>(config_.steps, 1);
    (name == "T_max" ? s.t_max : name == "num_training_steps" ? s.num_training_steps : s.total_num_steps) = length;
    derived_[key] = "derived";
  }

  void one_cycle() {
    auto& s = config_.scheduler;
    const auto ordered = [&](const char* least, double low, const char* most, double high) {
      const std::string root = "scheduler.params.";
      if (low <= high || given_.was_refused(root + least) || given_.was_refused(root + most)) return;
      error(has(root + most) ? root + most : root + least,
            fmt::format("{} must not exceed {}, got {} and {}", least, most, low, high));
    };
    if (has("scheduler.params.cycle_min_lr") && has("scheduler.params.cycle_max_lr"))
      ordered("cycle_min_lr", s.cycle_min_lr, "cycle_max_lr", s.cycle_max_lr);
    ordered("cycle_min_mom", s.cycle_min_mom, "cycle_max_mom", s.cycle_max_mom);
    momentum_at_the_end();
    behind_the_cycle();
    const bool has_betas = key_named("optimizer.params.betas")->read_by(core::name_of(config_.optimizer.type));
    if (!s.cycle_momentum || (has_betas && config_.optimizer.type != core::optimizer_type::muon)) return;
    if (value_of("scheduler.params.cycle_momentum") != nullptr)
      report_.warn(given_.where("scheduler.params.cycle_momentum"), "scheduler.params.cycle_momentum",
                   fmt::format("no effect: {} has no betas for all parameters", core::name_of(config_.optimizer.type)));
    s.cycle_momentum = false;
    derived_["scheduler.params.cycle_momentum"] = "derived";
  }

  /// Refuses a decay_mom_rate that would raise OneCycle's first beta above its limit between the end of the cycle and
  /// the end of the run.
  void momentum_at_the_end() {
    const auto& s = config_.scheduler;
    const auto& o = config_.optimizer;
    const bool has_betas = o.type == core::optimizer_type::adam || o.type == core::optimizer_type::adamw ||
                           o.type == core::optimizer_type::lamb || o.type == core::optimizer_type::lion;
    if (!s.cycle_momentum || !has_betas) return;
    if (has("optimizer.params.betas") && o.beta2 != one_cycle_second_beta)
      report_.warn(
          given_.where("optimizer.params.betas"), "optimizer.params.betas",
          fmt::format("no effect: OneCycle moves the first beta and takes {} for the second, as DeepSpeed does; "
                      "cycle_momentum: false keeps both",
                      one_cycle_second_beta));
    const uint64_t cycle = s.cycle_first_step_size + s.cycle_second_step_size.value_or(s.cycle_first_step_size);
    // The schedule advances after each step, so the last step of a run has the beta that follows from one step less.
    if (!job_ || s.decay_step_size == 0 || config_.steps <= cycle + 1) return;
    const double periods = static_cast<double>(config_.steps - 1 - cycle) / static_cast<double>(s.decay_step_size);
    const double last = s.cycle_max_mom * (1 + s.decay_mom_rate * periods),
                 most = std::max(most_first_beta, s.cycle_max_mom);
    if (last <= most) return;
    error("scheduler.params.decay_mom_rate",
          fmt::format("the first beta would reach {:.4g} at step {}, beyond {}: wanted a rate of at most {:.4g}", last,
                      config_.steps, most, std::floor((most / s.cycle_max_mom - 1) / periods * 1e6) / 1e6));
  }

  /// Numbers that other code repeats: the rate to which WarmupDecayLR rises by default, OneCycle's second beta
  /// (kernels::one_cycle_beta2), and the largest first beta that a job may reach (most_beta1 in
  /// job/step/optimizer_groups.cpp).
  static constexpr double warmup_decay_rate = 1e-3;
  static constexpr double one_cycle_second_beta = 0.99, most_first_beta = 0.999;

  /// Default learning rate of the parameters that Muon leaves to Adam.
  static constexpr double muon_adam_lr = 3e-4;

  bool job_, has_text_, is_hosts_;
};

}  // namespace

void training_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why) {
  training(given, config, report, derived, why).all();
}

}  // namespace troupe::config
