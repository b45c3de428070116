// Runs the checkpoint commands whose output contains the optimizer states: to-deepspeed, to-universal, to-dcp, reshape.
#include <fcntl.h>
#include <fmt/format.h>

#include <algorithm>
#include <filesystem>

#include "apps/base/idle_options.hpp"
#include "apps/checkpoint/conversion.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "apps/checkpoint/fitted_states.hpp"
#include "apps/checkpoint/optimizer_description.hpp"
#include "apps/checkpoint/written_formats.hpp"
#include "checkpoint/convert/distributed_export.hpp"
#include "checkpoint/convert/reshape.hpp"
#include "config/document/name_map_file.hpp"
#include "core/source_file.hpp"
#include "core/text.hpp"
#include "formats/deepspeed/write/universal_writer.hpp"
#include "formats/deepspeed/write/writer.hpp"
#include "formats/names/name_map.hpp"
#include "formats/names/name_rules.hpp"
#include "formats/safetensors/header.hpp"
#include "storage/files/atomic_file.hpp"

namespace troupe::apps {
namespace {

namespace fs = std::filesystem;

/// Arguments of to-deepspeed; of to-universal, which has no stage and ranks; and of to-dcp, which has no stage, type
/// and integer steps.
struct deepspeed_arguments : conversion_arguments {
  uint32_t stage = 2, ranks = 1;
  std::string dtype = "fp32";
  std::string job;  ///< path of a topology or ds_config.json that describes the optimizer; empty: the configuration in
                    ///< the checkpoint does
  /// True: the optimizer's step counts are written as integers, which DeepSpeed's own optimizers require
  bool integer_steps = false;
};

struct reshape_arguments : deepspeed_arguments {  ///< `ranks` is the data-parallel degree
  uint32_t tensor = 1, pipeline = 1;
  /// First layer of each pipeline stage; empty: layers are divided evenly.
  std::vector<uint32_t> partition;
  /// Megatron's checkpoint_version of the source and of the output, which decides the order of query, key and value
  std::optional<double> qkv_version, to_qkv_version;
  uint32_t heads = 0;  ///< number of attention heads, which to_qkv_version requires
  /// Path of a file of tensor names, in the form of --map, that is applied in reverse to the written names; empty:
  /// none.
  std::string map_back;
};

/// Checks that the tensors are the model's parameters, unless they are named by a pipeline's layers.
core::result<void> check_named(const described_checkpoint& c) {
  return c.source.has_layer_names ? core::result<void>() : check_parameters(c);
}

/// Returns the options for writing the weights, without an optimizer.
core::result<formats::deepspeed_write_options> options_for(const deepspeed_arguments& a,
                                                           const described_checkpoint& opened) {
  TROUPE_ASSIGN(const auto type, dtype_from("--dtype", a.dtype));
  const auto& s = opened.source;
  formats::deepspeed_write_options out;
  out.stage = a.stage;
  out.ranks = a.ranks;
  out.weight_type = type;
  out.integer_step = a.integer_steps;
  if (s.has_layer_names) return out;  // tensors that are named by pipeline layer are written under these names
  out.shared = shared_names(opened.model, s);
  out.name = [type = opened.model.model_type](const std::string& name) {
    return formats::hugging_face_name(type, name);
  };
  return out;
}

/// Returns the order in which the model registers the parameters, as names in the source; empty if the source has an
/// order of its own, or if the model is of an unknown family.
std::vector<std::string> order_of(const described_checkpoint& c) {
  std::vector<std::string> out;
  if (!c.source.parameter_order.empty() || c.source.has_layer_names) return out;
  const formats::name_map names(c.source);
  for (const auto& w : parameters_of(c.model)) {
    const auto name = names.find(w.name);
    if (!name) continue;
    const auto tied = std::ranges::find(c.source.tied, *name, &formats::tied_name::name);
    out.push_back(tied == c.source.tied.end() ? *name : tied->of);
  }
  return out;
}

core::result<void> add_optimizer(formats::deepspeed_write_options& o, const deepspeed_arguments& a,
                                 const formats::tensor_source& s) {
  TROUPE_ASSIGN(auto optimizer, describe_optimizer(s, a.job, a.stage, o.weight_type));
  o.groups = std::move(optimizer.groups);
  o.ds_config = std::move(optimizer.ds_config);
  return {};
}

bool has_moments(const formats::tensor_source& s) {
  return std::ranges::any_of(s.tensors, [](const auto& t) { return t.kind == formats::tensor_kind::moment; });
}

std::string no_states_in(const formats::tensor_source& s) {
  return fmt::format("the states of an optimizer, and '{}' has none", formats::shown_place(s));
}

void say_written(const conversion& writing, uint64_t bytes, size_t files) {
  writing.say(fmt::format("{} in {} files", core::human_bytes(bytes), files));
}

core::result<void> write_deepspeed(const deepspeed_arguments& a) {
  TROUPE_ASSIGN(auto opened, open_described(a.source, a.model_config));
  TROUPE_TRY(check_named(opened));
  TROUPE_TRY(fit_states(opened.source, a.source, a.job));
  TROUPE_ASSIGN(auto options, options_for(a, opened));
  TROUPE_TRY(add_optimizer(options, a, opened.source));
  warn_of_lost_samples(a.source, opened.source);
  options.order = order_of(opened);
  conversion writing(a.source, a.output);
  options.progress = writing.progress();
  TROUPE_TRY(writing.prepare(opened.source));
  TROUPE_ASSIGN(const auto report, formats::write_deepspeed_folder(opened.source, writing.place().working(), options));
  TROUPE_TRY(write_description(opened.model, report.folder));
  TROUPE_TRY(writing.commit());
  say_written(writing, report.bytes, report.files);
  return {};
}

/// Limit of the bytes read from a file that names a folder.
constexpr uint64_t most_pointer_bytes = 4096;

/// Checks that `name` may be written into the file in which DeepSpeed looks up the universal folder to load: the file
/// is missing, already contains `name`, or may be replaced because of --force.
core::result<void> check_pointer(const fs::path& pointer, const fs::path& name, const output_arguments& a) {
  std::error_code e;
  const auto status = fs::symlink_status(pointer, e);
  if (!fs::exists(status)) return {};
  const auto text = core::source_file::open(pointer, O_NOFOLLOW);
  std::string names;
  if (text) {
    names.resize(std::min<uint64_t>(text->size(), most_pointer_bytes));
    TROUPE_TRY(text->read(0, std::as_writable_bytes(std::span(names))));
  }
  names = names.substr(0, names.find('\n'));
  if (fs::is_regular_file(status) && (a.force || names == name.string())) return {};
  return fail(core::error_kind::bad_input,
              fmt::format("'{}' names '{}': give --force to let it name '{}', or another folder for OUT",
                          pointer.string(), formats::shown(names), name.string()));
}

core::result<void> write_universal(const deepspeed_arguments& a) {
  TROUPE_ASSIGN(auto opened, open_described(a.source, a.model_config));
  TROUPE_TRY(check_named(opened));
  TROUPE_TRY(fit_states(opened.source, a.source, a.job));
  TROUPE_ASSIGN(auto options, options_for(a, opened));
  TROUPE_TRY(add_optimizer(options, a, opened.source));
  warn_of_lost_samples(a.source, opened.source);
  options.order = order_of(opened);
  conversion writing(a.source, a.output);
  options.progress = writing.progress();
  TROUPE_TRY(writing.prepare(opened.source));
  // The parent folder of OUT gets the file `latest_universal`, which contains OUT's name.
  const auto name = writing.place().out().filename();
  const auto pointer = fs::absolute(writing.place().out()).parent_path() / "latest_universal";
  TROUPE_TRY(check_pointer(pointer, name, a.output));
  TROUPE_ASSIGN(const auto report,
                formats::write_universal_folder(opened.source, writing.place().working() / name, options));
  TROUPE_TRY(write_description(opened.model, report.folder));
  TROUPE_TRY(check_pointer(pointer, name, a.output));
  TROUPE_TRY(writing.commit(name));
  TROUPE_TRY(storage::write_file_atomically(pointer, name.string()));
  say_written(writing, report.bytes, report.files);
  return {};
}

core::result<void> write_distributed(const deepspeed_arguments& a) {
  TROUPE_ASSIGN(auto opened, open_described(a.source, a.model_config));
  TROUPE_TRY(check_named(opened));
  const auto& s = opened.source;
  TROUPE_TRY(refuse_idle(a.given, {{has_moments(s), no_states_in(s), {"--job"}}}));
  TROUPE_TRY(fit_states(opened.source, a.source, a.job));
  checkpoint::distributed_write_options options{.ranks = a.ranks};
  if (!s.has_layer_names) {
    options.shared = shared_names(opened.model, s);
    options.name = [type = opened.model.model_type](const std::string& name) {
      return formats::hugging_face_name(type, name);
    };
  }
  // Without moments there is no optimizer to describe.
  if (has_moments(s)) {
    TROUPE_ASSIGN(auto optimizer, describe_optimizer(s, a.job, 0, core::dtype::f32));
    options.groups = std::move(optimizer.groups);
  }
  warn_of_lost_samples(a.source, s);
  conversion writing(a.source, a.output);
  options.progress = writing.progress();
  TROUPE_ASSIGN(const auto needed, checkpoint::distributed_bytes(s, options));
  TROUPE_TRY(writing.prepare(s, output_kind::folder, needed));
  TROUPE_ASSIGN(const auto report, checkpoint::write_distributed_folder(s, writing.place().working(), options));
  TROUPE_TRY(write_description(opened.model, writing.place().working()));
  TROUPE_TRY(writing.commit());
  say_written(writing, report.bytes, report.files);
  return {};
}

/// Applies a file of names in reverse: replaces each name by the one that a rule of the file maps to it. Refused: a
/// name to which no rule maps.
core::result<void> name_back(formats::deepspeed_write_options& o, const std::filesystem::path& file,
                             const formats::tensor_source& s) {
  if (file.empty()) return {};
  TROUPE_ASSIGN(const auto lines, config::read_name_map(file));
  TROUPE_ASSIGN(const auto rules, formats::name_rules::of(lines));
  const auto before = [name = o.name](const std::string& own) { return name ? name(own) : own; };
  for (const auto& t : s.tensors)
    if (!rules.find_back(before(t.name)))
      return fail(core::error_kind::mismatch,
                  fmt::format("--map-back: '{}' has no rule that leads to '{}', which '{}' holds", file.string(),
                              before(t.name), formats::shown_place(s)));
  for (auto& [alias, owner] : o.shared) owner = rules.find_back(owner).value_or(owner);
  o.name = [before, rules](const std::string& name) {
    const auto own = before(name);
    return rules.find_back(own).value_or(own);
  };
  return {};
}

/// Writes the reshaped folder. Megatron's files define their split themselves; other models' parameters are split by
/// their names.
core::result<void> write_reshaped(const reshape_arguments& a) {
  TROUPE_ASSIGN(auto opened, open_described(a.source, a.model_config));
  TROUPE_TRY(check_named(opened));
  const auto* s = &opened.source;
  const auto is_of_qkv = [](const auto& t) { return t.name.find("query_key_value") != std::string::npos; };
  TROUPE_TRY(refuse_idle(
      a.given, {{has_moments(*s), no_states_in(*s), {"--job", "--integer-steps", "--stage"}},
                {has_moments(*s) || a.ranks == 1, no_states_in(*s), {"--dp"}},
                {std::ranges::any_of(s->tensors, is_of_qkv),
                 fmt::format("Megatron's attention (query_key_value), and '{}' has none", formats::shown_place(*s)),
                 {"--qkv-version", "--to-qkv-version"}}}));
  TROUPE_TRY(fit_states(opened.source, a.source, a.job));
  TROUPE_ASSIGN(auto options, options_for(a, opened));
  // Without moments there is no optimizer to describe.
  if (has_moments(*s)) TROUPE_TRY(add_optimizer(options, a, *s));
  TROUPE_TRY(name_back(options, a.map_back, *s));
  warn_of_lost_samples(a.source, *s);
  conversion writing(a.source, a.output);
  options.progress = writing.progress();
  TROUPE_TRY(writing.prepare(*s));
  checkpoint::reshape_options how;
  how.to = {.pipeline = a.pipeline, .tensor = a.tensor, .data = a.ranks};
  how.partition = a.partition;
  how.cuts = cuts_of(opened.model, a.tensor);
  how.qkv_version = a.qkv_version;
  how.to_qkv_version = a.to_qkv_version;
  how.heads = a.heads;
  how.write = std::move(options);
  TROUPE_ASSIGN(const auto report, checkpoint::reshape(*s, writing.place().working(), how));
  TROUPE_TRY(write_description(opened.model, report.folder));
  TROUPE_TRY(writing.commit());
  say_written(writing, report.bytes, report.files);
  return {};
}

conversion_option job_option(deepspeed_arguments& a) {
  return {.name = "--job",
          .into = &a.job,
          .help = "topology or ds_config.json with the optimizer; by default the one that the checkpoint keeps"};
}

void add_deepspeed_options(std::vector<conversion_option>& to, deepspeed_arguments& a) {
  to.push_back({.name = "--dtype",
                .into = &a.dtype,
                .help = "type in which DeepSpeed computes",
                .values = "{fp32,bf16,fp16}",
                .shows_default = true});
  to.push_back(job_option(a));
  add_model_options(to, a);
  to.push_back({.name = "--integer-steps",
                .into = &a.integer_steps,
                .help = "write the optimizer's steps as whole numbers, as DeepSpeed's own optimizers need them, not as "
                        "torch.optim's do"});
}

conversion_option stage_option(deepspeed_arguments& a) {
  return {.name = "--stage", .into = &a.stage, .help = "ZeRO stage, 0 to 3", .shows_default = true};
}

std::vector<conversion_option> to_deepspeed_options(deepspeed_arguments& a) {
  std::vector<conversion_option> out{
      stage_option(a), {.name = "--ranks", .into = &a.ranks, .help = "data-parallel ranks", .shows_default = true}};
  add_deepspeed_options(out, a);
  return out;
}

std::vector<conversion_option> to_universal_options(deepspeed_arguments& a) {
  std::vector<conversion_option> out;
  add_deepspeed_options(out, a);
  return out;
}

std::vector<conversion_option> to_dcp_options(deepspeed_arguments& a) {
  std::vector<conversion_option> out{{.name = "--ranks",
                                      .into = &a.ranks,
                                      .help = "number of files, each with its rows of every tensor",
                                      .shows_default = true},
                                     job_option(a)};
  add_model_options(out, a);
  return out;
}

std::vector<conversion_option> to_reshaped_options(reshape_arguments& a) {
  std::vector<conversion_option> out{
      {.name = "--tp", .into = &a.tensor, .help = "tensor-parallel degree", .shows_default = true},
      {.name = "--pp", .into = &a.pipeline, .help = "pipeline degree", .shows_default = true},
      {.name = "--partition",
       .into = &a.partition,
       .help = "the number of each stage's first layer, such as 0,4, if the engine that loads OUT has cut its layers "
               "so; by default evenly"},
      {.name = "--dp", .into = &a.ranks, .help = "data-parallel degree", .shows_default = true},
      stage_option(a),
      {.name = "--qkv-version",
       .into = &a.qkv_version,
       .help = "Megatron's checkpoint_version of PATH: 0, 1.0 or 2.0; by default what PATH says"},
      {.name = "--to-qkv-version",
       .into = &a.to_qkv_version,
       .help = "checkpoint_version of OUT; by default that of PATH"},
      {.name = "--heads",
       .into = &a.heads,
       .help = "attention heads of the model, for --to-qkv-version",
       .needs = "--to-qkv-version"},
      {.name = "--map-back",
       .into = &a.map_back,
       .help = "a file as for --map, read backwards: OUT has the names that it leads from"}};
  add_deepspeed_options(out, a);
  return out;
}

}  // namespace

constexpr written_format deepspeed_output{
    .command = "to-deepspeed",
    .help = "a folder that DeepSpeed resumes from",
    .out = "a folder: gets `latest` and the tag's folder",
    .begin = &typed_request<deepspeed_arguments, to_deepspeed_options, write_deepspeed>::begin};

constexpr written_format universal_output{
    .command = "to-universal",
    .help = "DeepSpeed's universal layout, for any degrees",
    .out = "a folder; `latest_universal` next to it then names it, and with --force even if it names another one",
    .begin = &typed_request<deepspeed_arguments, to_universal_options, write_universal>::begin};

constexpr written_format distributed_output{
    .command = "to-dcp",
    .help = "a folder that torch.distributed.checkpoint loads on any mesh (FSDP)",
    .out = "a folder",
    .begin = &typed_request<deepspeed_arguments, to_dcp_options, write_distributed>::begin};

constexpr written_format reshaped_output{
    .command = "reshape",
    .help = "files for other tensor-parallel, pipeline and data degrees",
    .out = "a folder: gets `latest` and the tag's folder",
    .begin = &typed_request<reshape_arguments, to_reshaped_options, write_reshaped>::begin};

}  // namespace troupe::apps
