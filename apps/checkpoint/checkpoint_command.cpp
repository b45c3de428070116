#include "apps/checkpoint/checkpoint_command.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>

#include "apps/base/common_options.hpp"
#include "apps/base/idle_options.hpp"
#include "apps/base/stop_request.hpp"
#include "apps/checkpoint/checkpoint_convert.hpp"
#include "apps/checkpoint/checkpoint_show.hpp"
#include "apps/checkpoint/described_checkpoint.hpp"
#include "formats/gguf/mixture.hpp"

namespace troupe::apps {

struct checkpoint_command::arguments {
  source_arguments source;
  diff_arguments diff;
  weights_arguments fp32, hugging_face;
  gguf_arguments gguf;
  deepspeed_arguments deepspeed, universal, distributed;
  reshape_arguments reshape;
  output_form form = output_form::text;
  bool prints_map = false;
  std::string model_config;
};

namespace {

constexpr const char* path_help =
    "a checkpoint, a folder of them or a run's output folder: Troupe's, DeepSpeed's (universal too), PyTorch's "
    "distributed (FSDP), Trainer's, Accelerate's, Hugging Face's; or one .safetensors, .pt, "
    ".bin or .gguf file";

constexpr const char* ignore_key_help =
    "a key of the model's config.json that is read as if it were not there; may be given several times";
constexpr const char* allow_overflow_help =
    "clamp values outside the range of the written type to its largest, and count them; without it they are refused";

constexpr const char* model_config_help =
    "Hugging Face's config.json of the model; by default what the checkpoint says of it";

void add_shard_size(CLI::App& c, weights_arguments& a) {
  c.add_option("--max-shard-size", a.max_shard_size, "largest size of one file of a folder")->capture_default_str();
}
void add_source(CLI::App& c, source_arguments& a, const char* name = "path", const char* help = path_help) {
  c.add_option(name, a.path, help)->required();
  auto* const tag =
      c.add_option("--tag", a.tag, "which checkpoint of the folder; by default the one that its `latest` names");
  c.add_option("--map", a.map, "a file that gives the tensors other names, for example to a pipeline's layers");
  auto* const older = c.add_flag("--fallback-to-previous", a.fallback_to_previous,
                                 "if the newest checkpoint of a folder cannot be opened, take the newest that can");
  // --tag names one checkpoint, so there is nothing to fall back to. `diff` opens a second checkpoint, to which --tag
  // does not apply, so that it may have both flags.
  if (c.get_name() != "diff") older->excludes(tag);
}
void add_description(CLI::App& c, source_arguments& a, std::string& model_config) {
  c.add_option("--model-config", model_config, model_config_help);
  c.add_option("--ignore-key", a.ignored_keys, ignore_key_help)->type_name("NAME")->allow_extra_args(false);
}
void add_overflow(CLI::App& c, source_arguments& a) {
  c.add_flag("--allow-overflow", a.allow_overflow, allow_overflow_help);
}
void add_output(CLI::App& c, output_arguments& a, const char* help) {
  c.add_option("out", a.out, help)->required();
  c.add_flag("--force", a.force, "replace OUT if an earlier conversion wrote it, and nothing else");
}
void add_deepspeed(CLI::App& c, deepspeed_arguments& a) {
  c.add_option("--dtype", a.dtype, "type in which DeepSpeed computes")
      ->capture_default_str()
      ->type_name("{fp32,bf16,fp16}");
  c.add_option("--job", a.job,
               "topology or ds_config.json with the optimizer; by default the one that the checkpoint keeps");
  add_description(c, a.source, a.model_config);
  add_overflow(c, a.source);
  c.add_flag(
      "--integer-steps", a.integer_steps,
      "write the optimizer's steps as whole numbers, as DeepSpeed's own optimizers need them, not as torch.optim's do");
  add_quiet(c, a.source.verbosity);
}

const source_arguments& source_in(const reshape_arguments& a) { return a.written.source; }
const source_arguments& source_in(const auto& a) { return a.source; }

/// Runs a conversion, which Ctrl-C can stop, and returns its exit code.
template <class Arguments>
int converted(core::result<void> (*convert)(const Arguments&), const Arguments& a) {
  const stop_request stop;
  const auto done = convert(a);
  return done ? 0 : ended_with(with_way_around(done.error(), source_in(a)));
}

}  // namespace

checkpoint_command::checkpoint_command(CLI::App& parent)
    : program_command(parent, "checkpoint", "look at checkpoints of any format, check and convert them"),
      arguments_(std::make_unique<arguments>()) {
  auto& a = *arguments_;
  command_->require_subcommand(1);
  command_->footer(
      "Exit codes: 0 well; 1 differs, damaged or failed; 2 arguments or PATH refused; 130, 143 interrupted.");

  auto* inspect = command_->add_subcommand("inspect", "the tree of tensors: shapes, dtypes, sizes, who holds what");
  add_source(*inspect, a.source);
  add_json(*inspect, a.form);
  inspect
      ->add_flag("--print-map", a.prints_map,
                 "instead: a file for --map, with a row for each name and what it becomes by --map and in the model")
      ->excludes("--json");
  add_description(*inspect, a.source, a.model_config);
  actions_.emplace_back(inspect, [&a] {
    return a.prints_map ? print_names(a.source, a.model_config) : inspect_checkpoint(a.source, a.form, a.model_config);
  });

  auto* verify = command_->add_subcommand("verify", "read every byte and compare every digest");
  add_source(*verify, a.source);
  add_quiet(*verify, a.source.verbosity);
  actions_.emplace_back(verify, [&a] { return verify_checkpoint_at(a.source); });

  auto* diff = command_->add_subcommand("diff", "compare the tensors of two checkpoints, of any two formats");
  add_source(*diff, a.diff.first, "first");
  diff->add_option("second", a.diff.second, "the other checkpoint")->required();
  diff->add_option("--tolerance", a.diff.tolerance,
                   "values may differ by so much and dtypes may differ; by default every bit counts");
  add_quiet(*diff, a.diff.first.verbosity);
  actions_.emplace_back(diff, [&a] { return diff_checkpoints_at(a.diff); });

  auto* fp32 = command_->add_subcommand("to-fp32", "the weights in fp32, as DeepSpeed's zero_to_fp32.py writes them");
  add_source(*fp32, a.fp32.source);
  add_output(*fp32, a.fp32.output,
             "NAME.safetensors, NAME.pt, NAME.pth, NAME.bin, or a folder for files with an index");
  add_shard_size(*fp32, a.fp32);
  add_description(*fp32, a.fp32.source, a.fp32.model_config);
  add_overflow(*fp32, a.fp32.source);
  fp32->add_flag("--exclude-frozen", a.fp32.exclude_frozen, "leave out parameters that were not trained");
  add_quiet(*fp32, a.fp32.source.verbosity);
  actions_.emplace_back(fp32, [&a, fp32] {
    a.fp32.given = given_in(*fp32);
    return converted(write_fp32, a.fp32);
  });

  auto* hf = command_->add_subcommand("to-hf", "config.json and safetensors that transformers loads");
  add_source(*hf, a.hugging_face.source);
  add_output(*hf, a.hugging_face.output, "a folder");
  hf->add_option("--dtype", a.hugging_face.dtype, "type of the weights")
      ->capture_default_str()
      ->type_name("{fp32,bf16,fp16}");
  add_description(*hf, a.hugging_face.source, a.hugging_face.model_config);
  add_overflow(*hf, a.hugging_face.source);
  add_shard_size(*hf, a.hugging_face);
  add_quiet(*hf, a.hugging_face.source.verbosity);
  actions_.emplace_back(hf, [&a] { return converted(write_hugging_face, a.hugging_face); });

  auto* gguf = command_->add_subcommand("to-gguf", "one file that llama.cpp loads, with its vocabulary");
  add_source(*gguf, a.gguf.source);
  add_output(*gguf, a.gguf.output, "a file, NAME.gguf");
  gguf->add_option("--type", a.gguf.type, "type of the matrices")
      ->capture_default_str()
      ->type_name("{" + fmt::format("{}", fmt::join(formats::all_mixtures(), ",")) + "}");
  gguf->add_option("--tokenizer", a.gguf.tokenizer,
                   "a tokenizer.model, tokenizer.json, vocab.json, a folder with one, or 'bytes'; by default the one "
                   "next to the weights, or the one that the run was trained with");
  add_description(*gguf, a.gguf.source, a.gguf.model_config);
  add_overflow(*gguf, a.gguf.source);
  add_quiet(*gguf, a.gguf.source.verbosity);
  actions_.emplace_back(gguf, [&a] { return converted(write_gguf, a.gguf); });

  auto* deepspeed = command_->add_subcommand("to-deepspeed", "a folder that DeepSpeed resumes from");
  add_source(*deepspeed, a.deepspeed.source);
  add_output(*deepspeed, a.deepspeed.output, "a folder: gets `latest` and the tag's folder");
  deepspeed->add_option("--stage", a.deepspeed.stage, "ZeRO stage, 0 to 3")->capture_default_str();
  deepspeed->add_option("--ranks", a.deepspeed.ranks, "data-parallel ranks")->capture_default_str();
  add_deepspeed(*deepspeed, a.deepspeed);
  actions_.emplace_back(deepspeed, [&a] { return converted(write_deepspeed, a.deepspeed); });

  auto* universal = command_->add_subcommand("to-universal", "DeepSpeed's universal layout, for any degrees");
  add_source(*universal, a.universal.source);
  add_output(*universal, a.universal.output,
             "a folder; `latest_universal` next to it then names it, and with --force even if it names another one");
  add_deepspeed(*universal, a.universal);
  actions_.emplace_back(universal, [&a] { return converted(write_universal, a.universal); });

  auto* distributed =
      command_->add_subcommand("to-dcp", "a folder that torch.distributed.checkpoint loads on any mesh (FSDP)");
  add_source(*distributed, a.distributed.source);
  add_output(*distributed, a.distributed.output, "a folder");
  distributed->add_option("--ranks", a.distributed.ranks, "number of files, each with its rows of every tensor")
      ->capture_default_str();
  distributed->add_option(
      "--job", a.distributed.job,
      "topology or ds_config.json with the optimizer; by default the one that the checkpoint keeps");
  add_description(*distributed, a.distributed.source, a.distributed.model_config);
  add_overflow(*distributed, a.distributed.source);
  add_quiet(*distributed, a.distributed.source.verbosity);
  actions_.emplace_back(distributed, [&a, distributed] {
    a.distributed.given = given_in(*distributed);
    return converted(write_distributed, a.distributed);
  });

  auto* reshape = command_->add_subcommand("reshape", "files for other tensor-parallel, pipeline and data degrees");
  add_source(*reshape, a.reshape.written.source);
  add_output(*reshape, a.reshape.written.output, "a folder: gets `latest` and the tag's folder");
  reshape->add_option("--tp", a.reshape.tensor, "tensor-parallel degree")->capture_default_str();
  reshape->add_option("--pp", a.reshape.pipeline, "pipeline degree")->capture_default_str();
  reshape
      ->add_option(
          "--partition", a.reshape.partition,
          "the number of each stage's first layer, such as 0,4, if the engine that loads OUT has cut its layers "
          "so; by default evenly")
      ->delimiter(',');
  reshape->add_option("--dp", a.reshape.written.ranks, "data-parallel degree")->capture_default_str();
  reshape->add_option("--stage", a.reshape.written.stage, "ZeRO stage, 0 to 3")->capture_default_str();
  reshape->add_option("--qkv-version", a.reshape.qkv_version,
                      "Megatron's checkpoint_version of PATH: 0, 1.0 or 2.0; by default what PATH says");
  auto* const to_version = reshape->add_option("--to-qkv-version", a.reshape.to_qkv_version,
                                               "checkpoint_version of OUT; by default that of PATH");
  reshape->add_option("--heads", a.reshape.heads, "attention heads of the model, for --to-qkv-version")
      ->needs(to_version);
  reshape->add_option("--map-back", a.reshape.map_back,
                      "a file as for --map, read backwards: OUT has the names that it leads from");
  add_deepspeed(*reshape, a.reshape.written);
  actions_.emplace_back(reshape, [&a, reshape] {
    a.reshape.written.given = given_in(*reshape);
    return converted(write_reshaped, a.reshape);
  });
}

checkpoint_command::~checkpoint_command() = default;

int checkpoint_command::run() {
  for (const auto& [command, action] : actions_)
    if (command->parsed()) return action();
  return 2;
}

}  // namespace troupe::apps
