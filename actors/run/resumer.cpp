#include "actors/run/resumer.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <initializer_list>
#include <map>

#include "actors/host_thread.hpp"
#include "actors/loading/checkpoint_load.hpp"
#include "actors/loading/data_record.hpp"
#include "actors/loading/teacher.hpp"
#include "actors/run/training_run.hpp"
#include "checkpoint/commit/open_native.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "config/document/document.hpp"
#include "config/document/name_map_file.hpp"
#include "core/number.hpp"
#include "core/text.hpp"
#include "data/batch.hpp"
#include "formats/compressed/source.hpp"
#include "formats/names/layer_names.hpp"
#include "formats/names/name_map.hpp"
#include "formats/report/verify.hpp"
#include "formats/trainer/numbered_states.hpp"
#include "job/model/folder_model.hpp"
#include "job/model/layer_reduction.hpp"
#include "kernels/optimizer/update_count.hpp"
#include "models/families/hugging_face.hpp"
#include "models/table/model_folder.hpp"

namespace troupe::actors {
namespace {

/// Largest number of loads that one call of resumer::resume makes; it makes another one after a load that met damage.
constexpr uint32_t loads_max = 3;

/// Remarks on a loaded checkpoint that the run prints; each remark is made at most once.
struct remarks {
  std::vector<std::string> unknown, changed;
};

/// Returns the size of the first update of a parameter, as a multiple of the learning rate, if its moments begin at 0
/// while bias correction counts the run's `applied` updates. Nothing if the optimizer has no bias correction, or the
/// factor is about 1.
std::optional<double> first_update_of(const config::optimizer_section& o, uint64_t applied) {
  using rule = core::optimizer_type;
  if ((o.type != rule::adam && o.type != rule::adamw && o.type != rule::lamb) || !o.bias_correction)
    return std::nullopt;
  const double t = static_cast<double>(applied + 1);
  const double first = (1 - o.beta1) / (1 - std::pow(o.beta1, t)), second = (1 - o.beta2) / (1 - std::pow(o.beta2, t));
  const double factor = first / std::sqrt(second);
  constexpr double hardly = 0.1;
  return std::fabs(factor - 1) < hardly ? std::nullopt : std::optional(factor);
}

std::string first_update_sentence(double factor, uint64_t applied) {
  return fmt::format(
      "their moments begin at 0 while bias correction counts the run's {} updates, so that their first update is "
      "{:.2g} times the learning rate; a parameter_groups entry can give them another rate for a while",
      applied, factor);
}

/// Returns a remark on trained parameters that were frozen in the checkpoint's run; empty if the size of their first
/// update is about that of other parameters.
std::string unfrozen_sentence(const load_report& loaded, const config::optimizer_section& o, uint64_t applied) {
  const auto factor = first_update_of(o, applied);
  if (!factor) return {};
  return fmt::format("{} parameter{}, as {}, {} frozen until now: {}", loaded.unfrozen, loaded.unfrozen == 1 ? "" : "s",
                     loaded.first_unfrozen, loaded.unfrozen == 1 ? "was" : "were",
                     first_update_sentence(*factor, applied));
}

/// Returns a remark on trained parameters without optimizer states in a checkpoint that has states of other parameters.
std::string stateless_sentence(const load_report& loaded, const config::optimizer_section& o, uint64_t applied) {
  const auto factor = first_update_of(o, applied);
  return fmt::format("has no states of an optimizer for {} trained parameter{}, as {}: {}", loaded.stateless,
                     loaded.stateless == 1 ? "" : "s", loaded.first_stateless,
                     factor ? first_update_sentence(*factor, applied) : "their moments begin at 0");
}

/// Returns a remark that the checkpoint's states are those of another optimizer, although their names match. Empty if
/// the checkpoint does not say which optimizer wrote them, or if both are Adam, whose states do not depend on the kind
/// of weight decay.
std::string other_optimizer_sentence(const formats::source_run& run, core::optimizer_type ours) {
  const auto keys = run.config.starts_with('{') ? config::read_json(run.config, 0) : config::read_yaml(run.config, 0);
  const auto* const section = keys.root == nullptr ? nullptr : keys.root->find("optimizer");
  const auto* const said = section == nullptr ? nullptr : section->find("type");
  if (said == nullptr || !said->is_scalar()) return {};
  const std::string name = core::lowered(said->text);
  const auto theirs = core::optimizer_type_from(name);
  const auto kind = [](core::optimizer_type t) {
    return t == core::optimizer_type::adamw ? core::optimizer_type::adam : t;
  };
  if (!theirs || kind(*theirs) == kind(ours)) return {};
  return fmt::format(
      "was trained with {}, and this run's optimizer is {}: its states are used as those of the same names; "
      "set checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin without them",
      core::name_of(*theirs), core::name_of(ours));
}

/// Returns the global batch of the run that wrote the checkpoint.
std::optional<uint64_t> batch_of(const formats::source_run& run) {
  if (run.samples_per_step) return run.samples_per_step;
  if (*run.steps == 0 || *run.samples % *run.steps != 0) return std::nullopt;
  return *run.samples / *run.steps;
}

/// Compares the run's data set with the description of the data set that the checkpoint contains, because the
/// checkpoint's position is a sample number in that data set. If they differ, returns an error, or adds a remark to
/// `said` if the options permit changed data.
core::result<void> same_data(const formats::tensor_source& from, const load_options& options,
                             const std::optional<formats::data_record>& now, remarks& said) {
  if (!now) return {};
  const auto& was = from.run.data;
  if (!was && from.format == "troupe")
    said.unknown.push_back("which data it was trained on: the present data are assumed to be the same");
  if (!was) return {};
  const auto change = compare(*was, *now);
  if (change.differences.empty()) return {};
  const std::string what = fmt::format("{}", fmt::join(change.differences, "; "));
  const std::string then = sentence_of(change, from.run.samples.value_or(0));
  if (!options.changed_data)
    return fail(error_kind::mismatch, fmt::format("'{}': {}; checkpoint.load.changed_data: true (--changed-data) {}",
                                                  formats::shown_place(from), what, then));
  said.changed.push_back(change.validates_trained == 0
                             ? what
                             : fmt::format("{}; {} tokens of the validation part may have been trained on", what,
                                           change.validates_trained));
  return {};
}

/// Returns the number of the sample with which this run continues at step `run.steps`. The seed determines the order of
/// samples and the dropout masks; the shape of batches determines which samples a step takes. If seed or batch differ
/// from the checkpoint's, returns an error unless the options permit it.
core::result<uint64_t> place_in_data(const formats::tensor_source& from, const load_options& options, uint64_t seed,
                                     const data::batch_shape& shape, remarks& said) {
  const auto& run = from.run;
  const auto folder = formats::shown_place(from);
  const uint64_t batch = shape.global_rows(), here = shape.from_the_start().samples_before(*run.steps);
  const uint64_t place = run.samples.value_or(here);
  if (!run.seed) said.unknown.push_back(fmt::format("its seed: {} is assumed", seed));
  if (run.seed && *run.seed != seed) {
    auto change = fmt::format("seed is {}, was {}", seed, *run.seed);
    if (!options.changed_seed)
      return fail(error_kind::mismatch,
                  fmt::format("'{}': {}, which is another order of samples; set checkpoint.load.changed_seed: true "
                              "(--changed-seed) to continue at sample {} of it",
                              folder, change, place));
    said.changed.push_back(std::move(change));
  }
  if (!run.samples) said.unknown.push_back(fmt::format("its position in the data: sample {} is assumed", here));
  if (place == here) return here;
  const auto was = batch_of(run);
  if (was == batch) return place;  // the batch changed in an earlier resume of that run
  auto change = was ? fmt::format("train_batch_size is {}, was {}", batch, *was)
                    : fmt::format("train_batch_size is {}, and {} steps took {} samples", batch, *run.steps, place);
  if (!options.changed_batch)
    return fail(error_kind::mismatch,
                fmt::format("'{}': {}, so step {} would begin at sample {} and not at {}, as before; set "
                            "checkpoint.load.changed_batch: true (--changed-batch) to continue where it was",
                            folder, change, *run.steps, here, place));
  said.changed.push_back(std::move(change));
  return place;
}

/// If the checkpoint numbers the layers of a pipeline instead of naming parameters, renames its tensors to the names of
/// this run's model, provided that the shapes of the layers permit only one assignment.
core::result<formats::tensor_source> named_for(const core::model_table& table, formats::tensor_source from,
                                               bool strict) {
  std::vector<formats::wanted_tensor> wanted;
  for (const auto& p : table.parameters)
    if (!p.is_copy() && !p.of_teacher) wanted.push_back({p.name, p.shape});
  auto named = formats::named_by_layers(std::move(from), wanted);
  if (!named || !named->has_layer_names || !strict) return named;
  const formats::name_map names(*named);
  const auto is_there = [&](const auto& w) { return names.find(w.name).has_value(); };
  if (std::ranges::all_of(wanted, is_there)) return named;
  return tl::unexpected(formats::unnamed_layers(*named, wanted));
}

/// If the checkpoint's optimizer states belong to numbered parameters, renames them to the names of this run's model;
/// leaves them out if `options` exclude them.
core::result<void> name_states_for(const core::model_table& table, formats::tensor_source& from,
                                   const load_options& options) {
  if (options.load_module_only || !options.load_optimizer_states) {
    formats::leave_out_states(from, "the options ask for none");
    return {};
  }
  // torch.optim numbers the parameters that it receives: all, or, as the Trainer does, those that are trained
  std::vector<formats::wanted_tensor> all, trained;
  for (const auto& p : table.parameters) {
    if (p.is_copy() || p.of_teacher) continue;
    all.push_back({p.name, p.shape});
    if (p.trainable) trained.push_back(all.back());
  }
  const auto ok = formats::name_states(from, all);
  if (ok || (trained.size() < all.size() && formats::name_states(from, trained))) return {};
  return fail(ok.error().kind,
              fmt::format("{}; set checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to load the "
                          "weights without them",
                          ok.error().text));
}

/// Opens the checkpoint as a source whose tensors have the names of `table`'s parameters. If the options have a
/// custom_load_fn, which names the tensors itself, they keep the checkpoint's names.
core::result<formats::tensor_source> open_for(const core::model_table& table, const std::filesystem::path& path,
                                              const load_options& options,
                                              const std::function<void(const std::string&)>& say) {
  TROUPE_ASSIGN(auto map, config::read_name_map(options.map));
  auto from =
      checkpoint::open_source(path, {.tag = options.tag,
                                     .fallback_to_previous = options.fallback_to_previous,
                                     .map = std::move(map),
                                     .say = say,
                                     .needs_states = !options.load_module_only && options.load_optimizer_states});
  if (!from) return from;
  const auto is_compressed = [](const auto& f) { return f.view != nullptr && f.view->is_compressed(); };
  if (!options.dequantise && std::ranges::any_of(from->files, is_compressed))
    return fail(error_kind::bad_input, formats::compressed_refusal(path));
  if (from->numbered != nullptr) TROUPE_TRY(name_states_for(table, *from, options));
  if (options.custom_load_fn) return from;
  return named_for(table, std::move(*from), options.load_module_strict);
}

/// The parameters that this run does not train: the first that a checkpoint lacks, the first that it has, and how many
/// it lacks.
struct frozen_parameters {
  std::string first_missing, first_held;
  uint64_t missing = 0;
};

frozen_parameters frozen_of(const formats::tensor_source& from, const core::model_table& table) {
  frozen_parameters out;
  const formats::name_map names(from);
  for (const auto& p : table.parameters) {
    if (p.is_copy() || p.of_teacher || p.trainable) continue;
    const bool held = names.find(p.name).has_value();
    if (!held) ++out.missing;
    std::string& first = held ? out.first_held : out.first_missing;
    if (first.empty()) first = p.name;
  }
  return out;
}

/// Returns the value of a key, whose path `names` lists, in the configuration that the checkpoint's run recorded; empty
/// if there is none.
std::string value_in(const formats::source_run& was, std::initializer_list<const char*> names) {
  const auto keys = config::read_yaml(was.config, 0);
  const config::node* at = keys.root.get();
  for (const char* name : names) at = at == nullptr ? nullptr : at->find(name);
  return at == nullptr || !at->is_scalar() ? std::string() : at->text;
}

/// Refuses a checkpoint whose run multiplied its adapters by another factor than this run: the same matrices would then
/// be another model. The factor is unknown if the run's adapters began with a folder.
core::result<void> same_factor(const formats::tensor_source& from, const models::model_spec& model) {
  if (!model.adapters) return {};
  const auto keys = config::read_yaml(from.run.config, 0);
  const auto* const section = keys.root == nullptr ? nullptr : keys.root->find("lora");
  if (section == nullptr || section->find("from") != nullptr) return {};
  const auto number = [&](const char* key, double by_default) {
    const auto* const value = section->find(key);
    return value == nullptr || !value->is_scalar() ? by_default
                                                   : core::number_of<double>(value->text).value_or(by_default);
  };
  const config::lora_section usual;
  const double rank = number("r", static_cast<double>(usual.r));
  const auto* const root = section->find("rslora");
  const bool by_root = root != nullptr && root->text == "true";
  const double was = number("alpha", usual.alpha) / (by_root ? std::sqrt(rank) : rank);
  if (was == model.adapters->scale()) return {};
  return fail(error_kind::mismatch,
              fmt::format("'{}': its run multiplied the outputs of adapters by {}, and this run multiplies them by {}; "
                          "give lora.r, lora.alpha and lora.rslora the values of that run",
                          formats::shown_place(from), was, model.adapters->scale()));
}

/// Returns why this run's initial weights differ from those with which the checkpoint's run began; empty if they are
/// equal.
std::string other_first_weights(const formats::source_run& was, const config::job_config& now) {
  if (const auto path = value_in(was, {"checkpoint", "load", "path"}); !path.empty())
    return fmt::format("its run began with the weights of '{}' (checkpoint.load.path)", path);
  if (now.compression.layers.enabled) return "its run began with layers of model.teacher";
  const auto model = now.model.path.empty() ? now.model.hugging_face_json : models::folder_of(now.model.path).string();
  if (was.model != model)
    return now.model.path.empty() ? std::string("its run had another model, or model.path")
                                  : fmt::format("model.path is {}, was {}", model, core::shown(was.model));
  if ((now.model.path.empty() || !models::has_weights(now.model.path)) && was.seed && *was.seed != now.seed)
    return fmt::format("seed is {}, was {}", now.seed, *was.seed);
  return {};
}

/// Returns a text that says where this run's initial weights come from.
std::string first_weights_of(const config::job_config& c, bool own_modules) {
  if (own_modules) return "the host program's modules have";
  if (!c.model.path.empty() && models::has_weights(c.model.path))
    return fmt::format("'{}' (model.path) has", c.model.path.string());
  return fmt::format("seed {} gives", c.seed);
}

/// Returns the progress with which this run continues the checkpoint's run, without the loss scale.
training_progress progress_of(const formats::source_run& run, const load_options& options, bool has_states) {
  training_progress out;
  const uint64_t updates = run.applied_updates.value_or(*run.steps);
  out.steps = *run.steps;
  if (has_states) out.applied = updates;
  if (options.load_lr_scheduler_states)
    out.scheduled =
        run.schedule_position ? static_cast<uint64_t>(std::max<int64_t>(*run.schedule_position, 0)) : updates;
  // PyTorch, too, stores the rates of groups with the optimizer's states.
  if (options.load_optimizer_states) out.group_changes = run.group_changes;
  out.client_state = run.client_state;
  out.configuration_before = run.config;
  return out;
}

bool is_moment(const formats::tensor_entry& t) { return t.kind == formats::tensor_kind::moment; }

/// True if the checkpoint has moments but no number of updates.
bool has_uncounted_states(const formats::tensor_source& from) {
  return !from.run.steps && std::ranges::any_of(from.tensors, is_moment);
}

formats::tensor_source without_moments(formats::tensor_source from) {
  std::erase_if(from.tensors, is_moment);
  return from;
}

/// Returns the remark for a checkpoint that does not say how many steps its run has done, so that this run begins at
/// step 0.
std::string_view beginning_of(const formats::tensor_source& from, bool is_useless, bool has_states) {
  if (is_useless)
    return "does not say how many updates its optimizer did, which this run's optimizer needs: its states are left "
           "out, and the run begins at step 0 with its weights";
  if (has_states) return "does not say its steps: the run begins at step 0 with its weights and its optimizer's states";
  const auto speaks_of_states = [](const std::string& line) { return line.find("optimizer") != line.npos; };
  if (std::ranges::none_of(from.remarks, speaks_of_states) && std::ranges::none_of(from.tensors, is_moment))
    return "holds weights alone: the run begins at step 0 with them";
  return "does not say its steps, or its optimizer's states are left out: the run begins at step 0 with its weights";
}

/// Returns [layer]: value range of the layer's inputs as the checkpoint's run measured it, matched by the layers'
/// names.
std::vector<kernels::activation_range> ranges_of(const formats::source_run& run,
                                                 const job::chosen_compression& compression) {
  std::vector<kernels::activation_range> out(compression.layers.size());
  for (size_t i = 0; i < out.size(); ++i) {
    const auto at = std::ranges::find(run.input_ranges, compression.layers[i].module, &formats::input_range::layer);
    if (at != run.input_ranges.end()) out[i] = {at->least, at->largest};
  }
  return out;
}

}  // namespace

core::result<formats::tensor_source> resumer::open(storage::file_system* disks, const std::filesystem::path& path,
                                                   const load_options& options) const {
  bool is_on_disks = false;
  if (disks != nullptr) {
    TROUPE_ASSIGN(const auto there, disks->exists(path / checkpoint::manifest_file_name));
    is_on_disks = there;
  }
  if (is_on_disks && !options.map.empty())
    return fail(
        error_kind::bad_input,
        fmt::format("--map: '{}' is a checkpoint of Troupe that the disks of several machines hold, which is read "
                    "by its own names: leave out --map",
                    path.string()));
  if (is_on_disks) return checkpoint::open_native(*disks, path);
  return open_for(*run_.term->plan.tensor.whole, path, options,
                  [this](const std::string& line) { run_.host.say(line); });
}

bool resumer::may_begin_anew(const core::error& why, const load_options& options) {
  if (!formats::is_damage(why) || weights_before(run_, options) != first_weights::from_checkpoint) return false;
  run_.over.why.reset();
  return true;
}

core::result<formats::tensor_source> resumer::open_described(storage::file_system* disks,
                                                             const std::filesystem::path& path,
                                                             const load_options& options) const {
  TROUPE_ASSIGN(auto from, open(disks, path, options));
  // The host program's own model has no keys of a model family to compare, and a custom_load_fn names the tensors
  // itself.
  if (run_.modules.model != nullptr || options.custom_load_fn) return from;
  const auto& model = run_.term->plan.config->model;
  if (from.format != "troupe")
    if (const auto unused = job::unused_ignored_key(model, run_.term->plan.spec, &from))
      return fail(error_kind::bad_input, "model.ignore_keys: " + *unused);
  TROUPE_TRY(job::check_described_model(from, run_.term->plan.spec, model.ignore_keys));
  return from;
}

core::result<std::filesystem::path> resumer::resume(const std::filesystem::path& path, load_options options,
                                                    resume_time when, opening_watch& watch,
                                                    const load_agreement& agreed) {
  options.dequantise |= run_.term->plan.config->model.dequantise;
  const auto disks = run_.others->files_of_machines();
  // Each process of a job reads other pieces: one that meets damage would load another checkpoint than the others.
  const bool may_fall_back = options.fallback_to_previous && !options.tag && !run_.others->are_there();
  bool has_changed = false;  // true: some states are of a damaged checkpoint until another load succeeds
  for (uint32_t loads = 1;; ++loads) {
    TROUPE_TRY(watch.begin("reading the checkpoint"));
    auto opened = open_described(disks.get(), path, options);
    if (!opened) {
      if (has_changed && when == resume_time::while_running) run_.over.why = opened.error();
      return fail(opened.error());
    }
    const auto& from = *opened;
    const bool continues = !options.load_module_only && from.run.steps.has_value();
    if (auto ok = take_over(from, options, when, watch, agreed); !ok) {
      has_changed |= run_.over.why.has_value();
      if (loads == loads_max || !may_fall_back || !may_begin_anew(ok.error(), options)) {
        if (has_changed && when == resume_time::while_running && !run_.over.why) run_.over.why = ok.error();
        return fail(checkpoint::with_way_around(
            ok.error(), path, {.tag = options.tag, .fallback_to_previous = options.fallback_to_previous}));
      }
      run_.host.say(fmt::format("'{}': {}; the load begins anew, with the newest checkpoint that is whole",
                                formats::shown_place(from), ok.error().text));
      continue;
    }
    run_.spikes.forget_places();
    options.left_out.reset();
    if (continues && from.format == "troupe") options.tag.reset();
    if (continues)
      run_.spikes.add_place({run_.progress.steps, from.format == "troupe" ? from.folder : path, std::move(options)});
    return from.folder;
  }
}

core::result<void> resumer::take_over(const formats::tensor_source& from, load_options options, resume_time when,
                                      opening_watch& watch, const load_agreement& agreed) {
  const auto say = [this](const std::string& line) { run_.host.say(line); };
  const bool is_uncounted = !options.load_module_only && options.load_optimizer_states && has_uncounted_states(from);
  const bool is_useless = is_uncounted && std::ranges::any_of(run_.term->plan.optimizer->groups, [](const auto& g) {
                            return kernels::depends_on_count(g.options);
                          });
  const auto weights_alone = is_useless ? std::optional(without_moments(from)) : std::nullopt;
  const auto& run = from.run;
  const auto folder = formats::shown_place(from);
  const bool continues = !options.load_module_only && run.steps.has_value();
  remarks said;
  uint64_t first_sample = 0;
  std::vector<core::left_out_steps> left_out;
  if (continues && run.teacher && teacher_) TROUPE_TRY(check_teacher(from.folder, *run.teacher, *teacher_));
  if (continues) {
    TROUPE_TRY(same_data(from, options, run_.data.record(), said));
    TROUPE_ASSIGN(const auto place,
                  place_in_data(from, options, run_.term->plan.config->seed, run_.term->loader.shape, said));
    first_sample = place;
  }
  if (options.left_out) {
    left_out = *options.left_out;
  } else {
    auto decided = continues ? run_.spikes.decide_left_out(run.left_out, *run.steps, first_sample)
                             : run_.spikes.decide_left_out({}, 0, 0);
    if (!decided) return fail(decided.error().in(fmt::format("'{}'", folder)));
    left_out = std::move(*decided);
  }
  TROUPE_TRY(same_factor(from, run_.term->plan.spec));
  TROUPE_ASSIGN(const auto frozen, keep_frozen(from, options, when));
  const auto& zero = run_.term->plan.config->zero_optimization;
  if (!options.load_from_fp32_weights) options.load_from_fp32_weights = zero.load_from_fp32_weights;
  options.pipeline_loading_checkpoint |= zero.pipeline_loading_checkpoint && zero.stage == 3;
  TROUPE_TRY(watch.begin("loading the checkpoint"));
  const bool running = when == resume_time::while_running;
  live_load state{.before_changes = agreed.before_changes};
  live_load* const live = running || is_mixed_ ? &state : nullptr;
  const auto loaded = load_tensors(
      weights_alone ? *weights_alone : from, run_.term->memory.here, *run_.term->plan.optimizer, run_.term->plan.tensor,
      options, live, [&] { return watch.wants_end(); },
      frozen.empty() ? lacking_frozen::refused : lacking_frozen::kept);
  const bool has_ended = !loaded && running && state.changing;
  if (has_ended) run_.over.why = loaded.error().in("the load failed after it had changed some states");
  is_mixed_ = !loaded && (is_mixed_ || !running || state.changing);
  if (!loaded) return fail(has_ended ? *run_.over.why : loaded.error());
  if (agreed.after_changes) TROUPE_TRY(agreed.after_changes());
  if (loaded->missing > 0)
    say(fmt::format("'{}': {} parameters keep their {} values, as {}", folder, loaded->missing,
                    running ? "present" : "first", loaded->first_missing));
  if (!frozen.empty()) say(fmt::format("'{}' {}", folder, frozen));
  if (const auto& names = loaded->left_out; !names.empty())
    say(fmt::format("'{}': {} parameter{} that this run's model does not have {} left out, such as {}", folder,
                    names.size(), names.size() == 1 ? "" : "s", names.size() == 1 ? "is" : "are",
                    formats::first_names(names)));

  run_.progress = continues ? progress_of(run, options, loaded->states) : training_progress{};
  run_.rates.take_over(folder);
  if (loaded->unfrozen > 0 && loaded->states && run_.progress.applied > 0)
    if (const auto line = unfrozen_sentence(*loaded, run_.term->plan.config->optimizer, run_.progress.applied);
        !line.empty())
      say(line);
  if (loaded->average_begins)
    say(fmt::format("'{}' has no average of its weights (section ema): it begins as the weights", folder));
  if (loaded->stateless > 0 && loaded->states)
    say(fmt::format("'{}' {}", folder,
                    stateless_sentence(*loaded, run_.term->plan.config->optimizer, run_.progress.applied)));
  if (loaded->states) {
    const auto ours = run_.term->plan.config->optimizer.type;
    if (const auto line = other_optimizer_sentence(run, ours); !line.empty())
      say(fmt::format("'{}' {}", folder, line));
    else if (!loaded->unused_moments.empty())
      say(fmt::format(
          "'{}' has states that this run's optimizer, {}, does not keep and that are left out: {}; set "
          "checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin without all of its "
          "states",
          folder, core::name_of(ours), fmt::join(loaded->unused_moments, ", ")));
  }
  if (is_uncounted && loaded->states)
    run_.progress.applied = 1;  // with 0, the next update would begin the moments anew
  if (continues && loaded->states) run_.progress.input_ranges = ranges_of(run, *run_.term->plan.compression);
  const bool fp16 = run_.term->plan.config->fp16.enabled, wants_states = options.load_optimizer_states;
  const auto& s = run.loss_scale;
  run_.progress.scale =
      continues && s && fp16 && wants_states
          ? kernels::loss_scale_state{s->cur_scale, s->cur_iter, s->last_overflow_iter, s->cur_hysteresis}
          : kernels::first_loss_scale(run_.term->plan.loss_scale);
  if (auto ok = run_.term->pruner.make_masks(continues ? run.masks : std::vector<formats::mask_record>()); !ok) {
    if (running) run_.over.why = ok.error();
    return fail(ok.error());
  }
  run_.term->loader.shape.first_step = run_.progress.steps;
  run_.term->loader.shape.first_sample = first_sample;
  run_.spikes.leave_out(std::move(left_out));
  if (continues && run_.term->plan.config->on_spike.action != config::spike_action::none) {
    run_.progress.recent_losses = run.recent_losses;
    if (const size_t window = run_.term->plan.config->on_spike.window; run_.progress.recent_losses.size() > window)
      run_.progress.recent_losses.erase(run_.progress.recent_losses.begin(),
                                        run_.progress.recent_losses.end() - ptrdiff_t(window));
  }

  if (!said.changed.empty())
    say(fmt::format("'{}': {}: the run continues at sample {} of the data", folder, fmt::join(said.changed, "; "),
                    first_sample));
  if (!from.remarks.empty()) say(fmt::format("'{}' ({}): {}", folder, from.format, fmt::join(from.remarks, "; ")));
  if (!continues && !options.load_module_only)
    say(fmt::format("'{}' {}", folder, beginning_of(from, is_useless, loaded->states)));
  if (!continues) return {};
  if (wants_states && !loaded->states) said.unknown.push_back("the optimizer's states, which begin afresh");
  if (fp16 && wants_states && !s) said.unknown.push_back("its loss scale, which begins afresh");
  if (!said.unknown.empty())
    say(fmt::format("'{}' ({}) does not say {}", folder, from.format, fmt::join(said.unknown, "; ")));
  return {};
}

// Frozen parameters that the checkpoint lacks may keep this run's initial values only if its run began with the same
// values.
core::result<std::string> resumer::keep_frozen(const formats::tensor_source& from, const load_options& options,
                                               resume_time when) const {
  const auto& c = *run_.term->plan.config;
  if (!c.checkpoint.exclude_frozen_parameters || from.format != "troupe" || options.custom_load_fn)
    return std::string();
  const auto frozen = frozen_of(from, *run_.term->plan.tensor.whole);
  // If the run resumes from a checkpoint of its own that has its frozen parameters, these may have been trained before.
  if (!frozen.first_held.empty() && c.checkpoint.load.path.empty() && when == resume_time::while_opening &&
      !value_in(from.run, {"checkpoint", "exclude_frozen_parameters"}).empty())
    return fail(error_kind::mismatch,
                fmt::format("'{}' holds the frozen parameter {}, which the run's next checkpoints would leave out "
                            "(checkpoint.exclude_frozen_parameters), although a resume would take it from the run's "
                            "start, where it may have had other values; set the key to false",
                            formats::shown_place(from), frozen.first_held));
  if (frozen.missing == 0 || !options.load_module_strict) return std::string();
  const std::string which =
      fmt::format("leaves out {} frozen parameter{}, such as {} (checkpoint.exclude_frozen_parameters)", frozen.missing,
                  frozen.missing == 1 ? "" : "s", frozen.first_missing);
  if (when == resume_time::while_running) return which + ": their present values stay";
  if (const auto why = other_first_weights(from.run, c); !why.empty())
    return fail(error_kind::mismatch,
                fmt::format("'{}' {}, and {}; set checkpoint.load.strict: false (--no-load-strict) to give them the "
                            "first values of this run",
                            formats::shown_place(from), which, why));
  return fmt::format("{}: their values are those that {}, as at the start of the run", which,
                     first_weights_of(c, run_.modules.model != nullptr));
}

core::result<void> resumer::look_at_teacher() {
  if (!run_.term->plan.teaching || teacher_) return {};
  auto record = teacher_record_of(run_.term->plan.config->model.teacher);
  if (!record) return fail(record.error().in("model.teacher"));
  teacher_ = std::move(*record);
  return {};
}

// Loads the weights of the layers that `model.teacher` selects by number, and nothing else of the teacher.
core::result<void> resumer::take_layers(opening_watch& watch) {
  const auto& c = *run_.term->plan.config;
  if (!c.compression.layers.enabled) return {};
  if (c.model.teacher.empty())
    return fail(
        error_kind::bad_input,
        "compression_training.layer_reduction.enabled: cannot be combined with a host program's own modules; set it to "
        "false and call compression::init_compression or student_initialization, which copies the layers");
  TROUPE_TRY(watch.begin("taking the teacher's layers"));
  load_options options;
  options.dequantise = c.model.dequantise;
  options.custom_load_fn = [](const core::parameter_info&) { return std::nullopt; };
  const auto say = [this](const std::string& line) { run_.host.say(line); };
  const auto& table = *run_.term->plan.tensor.whole;
  auto from = open_for(table, c.model.teacher, options, say);
  if (!from) return fail(from.error().in("model.teacher"));
  std::erase_if(from->tensors, [](const auto& t) { return t.kind == formats::tensor_kind::moment; });
  std::vector<job::source_tensor> there;
  for (const auto& t : from->tensors) there.push_back({t.name, t.shape});
  TROUPE_ASSIGN(auto names, job::reduced_layers(c, table, there));
  std::map<std::string_view, std::string> of;
  for (size_t q = 0; q < names.size(); ++q)
    if (names[q]) of.emplace(table.parameters[q].name, *names[q]);
  options.custom_load_fn = [&of](const core::parameter_info& p) -> std::optional<std::string> {
    const auto found = of.find(p.name);
    return found == of.end() ? std::nullopt : std::optional(found->second);
  };
  const auto loaded = load_tensors(*from, run_.term->memory.here, *run_.term->plan.optimizer, run_.term->plan.tensor,
                                   options, nullptr, [&] { return watch.wants_end(); });
  if (!loaded) return fail(loaded.error().in("model.teacher"));
  say(fmt::format("'{}': {} of {} parameters begin with those of layers {}, {} bytes read", formats::shown_place(*from),
                  of.size(), of.size() + loaded->missing, fmt::join(c.compression.layers.teacher_layer, ", "),
                  loaded->read.bytes));
  return {};
}

core::result<void> resumer::begin(opening_watch& watch,
                                  const std::optional<std::vector<core::left_out_steps>>& left_out) {
  TROUPE_TRY(run_.spikes.leave_out_from_the_start());
  if (left_out) run_.spikes.leave_out(*left_out);
  TROUPE_TRY(take_layers(watch));
  return run_.term->pruner.make_masks({});
}

core::result<void> resumer::tell_loader() {
  core::result<void> out;
  // micro-batches that could not be read before do not count any more: the loader starts at another data position
  run_.over.lost_step->store(std::numeric_limits<uint64_t>::max());
  const host_caller self(*run_.home.system);
  self->request(run_.term->members->loader, caf::infinite,
                move_data{run_.term->loader.shape.first_step, run_.term->loader.shape.first_sample,
                          run_.term->loader.shape.skipped.ranges()})
      .receive(
          [] {},
          [&](caf::error& e) { out = fail(error_kind::peer_lost, "loader ended: " + run_.home.system->render(e)); });
  return out;
}

core::result<loaded_checkpoint> resumer::load_once(const std::filesystem::path& path, const load_options& options) {
  // The failure of a save is reported to the host program by on_saved; here only the end of the run is an error.
  if (auto ok = run_.saves.end_saves(); !ok && run_.over.why) return fail(ok.error());
  TROUPE_ASSIGN(const auto folder, run_.others->load(path, options));
  ++run_.counts.loads;
  run_.rates.forget();
  run_.loop.forget();  // the weights of its forward passes are gone
  run_.loop.go_back(run_.progress.steps);
  run_.saves.forget_unproved();
  run_.recorder.continue_curves_of(path);
  run_.recorder.go_back();
  if (auto ok = tell_loader(); !ok) {
    run_.over.why = ok.error();
    return fail(ok.error());
  }
  // Replaces the save in memory, which is from before the load: after a loss the run would otherwise return to that
  // state.
  TROUPE_TRY(run_.others->save_in_memory_now());
  return loaded_checkpoint{folder, run_.progress.client_state};
}

}  // namespace troupe::actors
