// Troupe's own keys: devices, data, length and outputs of a run. Leaves the processes of a job to keys_cluster.cpp.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"
#include "core/sample_types.hpp"
#include "core/text.hpp"
#include "core/tokenizer_kinds.hpp"

namespace troupe::config {
namespace {

using enum value_type;

constexpr double device_index_max = 127;  // largest device index that LibTorch accepts

hand_made bin_dtype_field() {
  return {
      [](job_config& c, const node& v) -> std::optional<std::string> {
        c.data.bin_dtype = v.text == "uint32" ? core::dtype::i32 : core::dtype::i16;
        return std::nullopt;
      },
      [](const job_config& c) -> std::string { return c.data.bin_dtype == core::dtype::i32 ? "uint32" : "uint16"; }};
}

std::string_view meaning_of_tokenizer() {
  static const std::string text = fmt::format(
      "How text becomes tokens: `bytes` (every byte is one), or the path of {}. `bytes` are for a model "
      "with at most 256 words; `bytes-as-ids` feeds them to a larger vocabulary, too.",
      core::tokenizer_kinds);
  return text;
}

hand_made device_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.device = v.text == "cuda" ? core::device_kind::cuda : core::device_kind::cpu;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return std::string(core::name_of(c.device)); }};
}

hand_made devices_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            std::vector<uint32_t> found;
            for (const node_ptr& item : v.items) found.push_back(static_cast<uint32_t>(integer_in(*item)->magnitude));
            if (found.empty()) return "a list of at least one index";
            c.cuda.devices = std::move(found);
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return fmt::format("[{}]", fmt::join(c.cuda.devices, ", ")); }};
}

hand_made ramp_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            if (v.items.size() != 3) return "a list of three numbers: the first batch, an increment and samples";
            c.data.rampup_batch_size.clear();
            for (const node_ptr& item : v.items) c.data.rampup_batch_size.push_back(integer_in(*item)->magnitude);
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            const auto& ramp = c.data.rampup_batch_size;
            return ramp.empty() ? "none" : fmt::format("[{}]", fmt::join(ramp, ", "));
          }};
}

hand_made order_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.order = v.text == "per_step"          ? gradient_order::per_step
                      : v.text == "per_micro_batch" ? gradient_order::per_micro_batch
                                                    : gradient_order::automatic;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            switch (c.order) {
              case gradient_order::per_step:
                return "per_step";
              case gradient_order::per_micro_batch:
                return "per_micro_batch";
              case gradient_order::automatic:
                break;
            }
            return "automatic";
          }};
}

hand_made tied_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.tied = v.text == "in_bucket" ? tied_gradients::in_bucket
                     : v.text == "per_use" ? tied_gradients::per_use
                                           : tied_gradients::automatic;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            return c.tied == tied_gradients::in_bucket ? "in_bucket"
                   : c.tied == tied_gradients::per_use ? "per_use"
                                                       : "automatic";
          }};
}

hand_made tokenizer_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.data.tokenizer = v.text;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            return c.data.tokenizer_path.empty() ? c.data.tokenizer : quoted(c.data.tokenizer_path.string());
          }};
}

/// Length limit of a validation set's name, which is a part of file names.
constexpr size_t set_name_max = 64;

/// Limit of the number of validation sets, as of the sources that a checkpoint records.
constexpr size_t sets_max = 1024;

/// True if `name` may name a validation set: in the names of curves, `Samples` stands for the held-out part.
bool names_a_set(std::string_view name) {
  const auto fits = [](char c) { return core::is_ascii_word(c) || c == '_' || c == '-' || c == '.'; };
  return !name.empty() && name.size() <= set_name_max && name.front() != '.' && std::ranges::all_of(name, fits) &&
         name != "Samples";
}

/// Reads a validation set, whose path stays as it is given. Returns a description of the expected value if it is
/// another one.
std::optional<std::string> read_set(const entry& e, validation_set& out) {
  const std::string wanted =
      fmt::format("a path for the set {}, or {{text: PATH, form: FORM, text_key: KEY}}", core::shown(e.name));
  out.name = e.name;
  out.form.clear();
  if (!names_a_set(e.name))
    return fmt::format("sets with names of at most {} letters, digits, '_', '-' and '.', none of them Samples",
                       set_name_max);
  if (is_text(*e.value)) {
    out.text = e.value->text;
    return out.text.empty() ? std::optional(wanted) : std::nullopt;
  }
  if (e.value->kind != node_kind::mapping) return wanted;
  for (const entry& part : e.value->entries) {
    if (!is_text(*part.value)) return wanted;
    if (part.name == "text")
      out.text = part.value->text;
    else if (part.name == "form" && core::sample_form_from(part.value->text))
      out.form = part.value->text;
    else if (part.name == "text_key")
      out.text_key = part.value->text;
    else
      return part.name == "form" ? fmt::format("one of the forms {} for the set {}",
                                               fmt::join(core::sample_form_names, ", "), core::shown(e.name))
                                 : wanted;
  }
  return out.text.empty() ? std::optional(wanted) : std::nullopt;
}

hand_made validation_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.data.validation.clear();
            if (v.entries.size() > sets_max) return fmt::format("at most {} sets", sets_max);
            for (const entry& e : v.entries)
              if (auto wanted = read_set(e, c.data.validation.emplace_back())) return wanted;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string {
            std::string out;
            for (const validation_set& one : c.data.validation)
              out += fmt::format("{}{}: {{text: {}, form: {}, text_key: {}}}", out.empty() ? "{" : ", ",
                                 quoted(one.name), quoted(one.text.string()), one.form, quoted(one.text_key));
            return out.empty() ? "none" : out + "}";
          }};
}

using job = job_config;

constexpr auto sources = [](job_config & c) -> auto& { return c.data.sources; };

void add_source_keys(key_rows& t) {
  t.row("data.sources[]", section)
      .list_of(
          sources, +[](const job& c) { return c.data.has_short_form() ? 0 : c.data.sources.size(); })
      .means("The texts to train on, in place of data.text.");
  t.row("data.sources[].text", path).needed().into_item<&data_source::text>(sources).means("As data.text.");
  t.row("data.sources[].weight", number)
      .by_default("1")
      .above(0)
      .into_item<&data_source::weight>(sources)
      .means("Its share of the samples, against the other weights.");
  t.row("data.sources[].text_key", text)
      .into_item<&data_source::text_key>(sources)
      .means("As data.text_key, which it is by default for texts; for a chat, the column of its messages.");
  t.row("data.sources[].form", text)
      .by_default("text")
      .one_of({"text", "chat", "instruct", "labelled"})
      .into_item<&data_source::form>(sources)
      .means("How its rows become samples: as data.text, data.chat, data.instruct or data.labelled.");
}

void add_sample_form_keys(key_rows& t) {
  using data = data_section;
  t.row("data.chat", path)
      .into<&job::data, &data::chat>()
      .means(
          "Conversations to train on, in place of data.text: JSON lines, a JSON array, Parquet or Arrow with OpenAI's "
          "`messages` or ShareGPT's `conversations`. The tokenizer's chat template renders them, and the loss is that "
          "of the answers.");
  t.row("data.instruct", path)
      .into<&job::data, &data::instruct>()
      .means(
          "Prompts with answers to train on, in place of data.text: `prompt` and `completion`, or Alpaca's "
          "`instruction`, `input` and `output`. The loss is that of the answers.");
  t.row("data.labelled", path)
      .into<&job::data, &data::labelled>()
      .means(
          "Tokens to train on, in place of data.text: `input_ids`, and `labels` that are -100 where a token does not "
          "count.");
  t.row("data.chat_template", text)
      .into<&job::data, &data::chat_template>()
      .means(
          "The chat template: a file whose name ends in .jinja, or the name of one of the tokenizer's; `joined` is for "
          "prompts with completions that follow each other without one. By default the tokenizer's own.");
  t.row("data.chat_date", text)
      .into<&job::data, &data::chat_date>()
      .means(
          "The date, such as '2026-01-31', that a chat template writes where it asks for the present time; without it "
          "such a template is refused, because a resumed run would read other samples.");
  t.row("data.loss_on", text)
      .by_default("assistant")
      .one_of({"assistant", "all", "last"})
      .into<&job::data, &data::loss_on>()
      .means("The tokens of a conversation whose loss counts: those of the assistant, all, or those of its last turn.");
  t.row("data.too_long", text)
      .by_default("refuse")
      .one_of({"refuse", "drop", "cut"})
      .into<&job::data, &data::too_long>()
      .means(
          "What becomes of a sample of conversations, prompts or labelled tokens that is longer than "
          "data.sequence_length: an error, nothing, or its first tokens.");
  t.row("data.packing", text)
      .by_default("best_fit")
      .one_of({"best_fit", "none"})
      .but_never("buckets",
                 "a step is planned for rows of data.sequence_length tokens alone, which best_fit fills with several "
                 "samples, so that hardly any padding is computed")
      .into<&job::data, &data::packing>()
      .means(
          "How samples of conversations, prompts or labelled tokens become rows: as many as fit, or one in each, with "
          "padding that does not count.");
}

void add_masking_keys(key_rows& t) {
  using data = data_section;
  using masking = masking_section;
  section_rows key(t, "data.masking",
                   "The tokens that an encoder (bert, roberta) has to find; special tokens never are.");
  key("probability", number, "0.15", "Probability with which a token of a text is one of them.")
      .above(0)
      .at_most(1)
      .into<&job::data, &data::masking, &masking::probability>()
      .tells<&job::data, &data::masking, &masking::given>();
  key("mask", number, "0.8", "Share of them that the mask token replaces.")
      .at_least(0)
      .at_most(1)
      .into<&job::data, &data::masking, &masking::mask>()
      .tells<&job::data, &data::masking, &masking::given>();
  key("random", number, "0.1", "Share of them that a random token replaces; the others stay as they are.")
      .at_least(0)
      .at_most(1)
      .into<&job::data, &data::masking, &masking::random>()
      .tells<&job::data, &data::masking, &masking::given>();
  key("mask_token_id", integer, "none", "The mask token; none: the tokenizer's, or that of config.json.")
      .at_least(0)
      .at_most((1 << 24) - 1)
      .into<&job::data, &data::masking, &masking::mask_token_id>()
      .tells<&job::data, &data::masking, &masking::given>();
}

void add_data_keys(key_rows& t) {
  using data = data_section;
  t.row("data", section).means("The text to train on.");
  t.row("data.text", path)
      .into<&job::data, &data::text>()
      .means(
          "A text file, a .jsonl, .parquet or .arrow file or a .tar of texts, a .gz, .dz or .zst of either, a .bin of "
          "tokens (alone or with Megatron's .idx), or a folder of such files. Required, unless there are sources.");
  t.row("data.text_key", text)
      .by_default("text")
      .into<&job::data, &data::text_key>()
      .means("The key of a JSON line, the column of a table, or the ending of a tar's files that holds the text.");
  t.row("data.tokenizer", text)
      .by_default("bytes")
      .by_hand(tokenizer_field())
      .tells<&job::data, &data::tokenizer_given>()
      .means(meaning_of_tokenizer());
  t.row("data.document_mask", boolean)
      .by_default("false")
      .into<&job::data, &data::document_mask>()
      .means("Keep attention within a document and count positions from its start.");
  t.row("data.bin_dtype", text)
      .by_default("uint16")
      .one_of({"uint16", "uint32"})
      .by_hand(bin_dtype_field())
      .means("The type of one token in a .bin file with nothing beside it that says so.");
  t.row("data.max_bytes", bytes)
      .by_default("17179869184")
      .at_least(1)
      .into<&job::data, &data::max_bytes>()
      .means(
          "The most bytes of text that a source may have, after decompression. Tokens that are not packed are not "
          "limited.");
  t.row("data.sequence_length", integer)
      .by_default("0")
      .at_least(0)
      .at_most(1 << 30)
      .into<&job::data, &data::sequence_length>()
      .means("Tokens of one sample; 0: as many as the model has positions.");
  t.row("data.shuffle", boolean)
      .by_default("true")
      .into<&job::data, &data::shuffle>()
      .means("Shuffle the samples of each source anew in every epoch; false: the order of the source.");
  t.row("data.validation_fraction", number)
      .by_default("0")
      .at_least(0)
      .below(1)
      .into<&job::data, &data::validation_fraction>()
      .means("The last part of the text, which is never trained on.");
  t.row("data.validation", object)
      .by_hand(validation_field())
      .means(
          "Validation sets besides the held-out part, which are never trained on: a name for each, and a path, or its "
          "text, form and text_key as in data.sources. The form is by default that of the sources.");
  t.row("data.prefetch_batches", integer)
      .by_default("4")
      .at_least(1)
      .at_most(1024)
      .into<&job::data, &data::prefetch_batches>()
      .means("Global batches the loader keeps ready.");
  t.row("data.rampup_batch_size", integers)
      .at_least(1)
      .at_most(1e12)
      .by_hand(ramp_field())
      .means(
          "[START, INCREMENT, SAMPLES], as Megatron-LM has it: steps begin with START samples, and have INCREMENT more "
          "each time that an equal part of SAMPLES is used, until they have `train_batch_size`.");
  add_source_keys(t);
  add_sample_form_keys(t);
  add_masking_keys(t);
}

constexpr auto groups = [](job_config & c) -> auto& { return c.parameter_groups; };

void add_group_keys(key_rows& t) {
  using group = parameter_group;
  t.row("parameter_groups[]", section)
      .list_of(
          groups, +[](const job& c) { return c.parameter_groups.size(); })
      .means("What differs for some parameters; the first group that matches a name has the parameter.");
  t.row("parameter_groups[].match", text)
      .needed()
      .into_item<&group::match>(groups)
      .means("A pattern as RE2 reads it, searched in the parameter's name.");
  t.row("parameter_groups[].lr", number)
      .at_least(0)
      .into_item<&group::lr>(groups)
      .means("Learning rate; none: the optimizer's.");
  t.row("parameter_groups[].weight_decay", number)
      .at_least(0)
      .into_item<&group::weight_decay>(groups)
      .means("Pull towards zero; none: the optimizer's.");
  t.row("parameter_groups[].trainable", boolean)
      .by_default("true")
      .into_item<&group::trainable>(groups)
      .means("false: the parameters stay as they are, without gradient or optimizer state.");
}

void add_parallel_keys(key_rows& t) {
  using parallel = parallel_section;
  t.row("parallel", section)
      .means("How many ranks share the work, and how; ranks = pipeline x data x sequence x context x tensor.");
  t.row("parallel.ranks", integer)
      .at_least(1)
      .at_most(1U << 28U)
      .into<&job::parallel, &parallel::all>()
      .means(
          "Ranks in all, which the degrees have to multiply to; where data is not given, what the others leave. "
          "Degrees "
          "of pipeline, tensor, sequence, context and data that are `auto` share them out as a step is fastest.");
  t.row("parallel.data", integer)
      .by_default("1")
      .at_least(1)
      .at_most(65536)
      .into<&job::parallel, &parallel::data>()
      .means("Ranks that train on different samples.");
  t.row("parallel.shard", integer)
      .by_default("0")
      .at_least(0)
      .at_most(65536)
      .into<&job::parallel, &parallel::shard>()
      .means(
          "Stages 1 to 3: data ranks that states are cut over, a group of neighbours; groups hold the same. 0: all of "
          "parallel.data.");
  t.row("parallel.pipeline", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::parallel, &parallel::pipeline>()
      .means("Ranks that each have their own layers, in stages (section pipeline), and train on the same samples.");
  t.row("parallel.tensor", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::parallel, &parallel::tensor>()
      .means("Ranks that share the matrices of attention and MLP in each block.");
  t.row("parallel.sharded_norms", boolean)
      .by_default("derived")
      .into<&job::parallel, &parallel::sharded_norms>()
      .means(
          "Each tensor rank computes norms, dropout and the residual path of its own tokens alone, and sends these to "
          "other stages; by default true with activation_checkpointing.partition_activations, else false.");
  t.row("parallel.sequence", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::parallel, &parallel::sequence>()
      .means("Ranks that share each sample: each has other tokens of it, and in attention other heads (Ulysses).");
  t.row("parallel.context", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::parallel, &parallel::context>()
      .means(
          "Ranks that share each sample: each has other tokens of it, and attention gathers keys and values of all.");
  t.row("parallel.expert", integer)
      .by_default("1")
      .at_least(1)
      .just("1")
      .needs(capability::experts)
      .into<&job::parallel, &parallel::expert>()
      .means("Ranks that share the experts of a layer.");
}

void add_evaluation_keys(key_rows& t) {
  using eval = evaluation_section;
  t.row("evaluation", section).means("Loss on the text that is never trained on.");
  t.row("evaluation.every_steps", integer)
      .by_default("0")
      .at_least(0)
      .into<&job::evaluation, &eval::every_steps>()
      .means("Steps between evaluations; 0: only at the end.");
  t.row("evaluation.batches", integer)
      .by_default("0")
      .at_least(0)
      .into<&job::evaluation, &eval::batches>()
      .means(
          "Global micro-batches (micro-batch x data ranks) of each evaluation of a validation set, the last one too; "
          "0: all of the set.");
}

void add_telemetry_keys(key_rows& t) {
  using telemetry = telemetry_section;
  t.row("telemetry", section).means("What a run records about itself.");
  t.row("telemetry.trace", boolean)
      .by_default("true")
      .into<&job::telemetry, &telemetry::trace>()
      .means("Write a Perfetto trace of every instruction.");
  t.row("telemetry.trace_from_step", integer)
      .by_default("2")
      .at_least(0)
      .into<&job::telemetry, &telemetry::trace_from_step>()
      .means("The first step of the trace, counted from 0.");
  t.row("telemetry.trace_steps", integer)
      .by_default("3")
      .at_least(0)
      .at_most(1000)
      .into<&job::telemetry, &telemetry::trace_steps>()
      .means("Steps in the trace.");
  t.row("telemetry.json_lines", boolean)
      .by_default("false")
      .into<&job::telemetry, &telemetry::json_lines>()
      .means("Write the curves as JSON lines too.");
  t.row("telemetry.report", boolean)
      .by_default("true")
      .into<&job::telemetry, &telemetry::report>()
      .means("Write a report of the run as one HTML page.");
}

void add_sample_keys(key_rows& t) {
  using sample = sample_section;
  t.row("sample", section).switched_by("sample.tokens").means("Text that the model writes at the end of a run.");
  t.row("sample.tokens", integer)
      .by_default("0")
      .at_least(0)
      .at_most(1 << 20)
      .into<&job::sample, &sample::tokens>()
      .means("Tokens to write; 0: none.");
  t.row("sample.prompt", text)
      .by_default("\"The \"")
      .into<&job::sample, &sample::prompt>()
      .means("What the text begins with.");
  t.row("sample.question", text)
      .into<&job::sample, &sample::question>()
      .means(
          "A question that the model answers, in place of sample.prompt: the chat template renders it, and the answer "
          "ends with the token that ends a turn. For data.chat and data.instruct.");
  t.row("sample.temperature", number)
      .by_default("0.8")
      .above(0)
      .at_most(100)
      .into<&job::sample, &sample::temperature>()
      .means("1: as the model predicts; towards 0: always the likeliest.");
}

}  // namespace

void add_job_keys(key_rows& t) {
  t.row("deepspeed_config", path)
      .means("A DeepSpeed JSON file whose keys count as if they stood here; a key that stands here too wins.");
  t.row("seed", integer)
      .by_default("0")
      .at_least(0)
      .into<&job::seed>()
      .means("Fixes initial weights, sample order and dropout.");
  t.row("device", text)
      .by_default("cpu")
      .one_of({"cpu", "cuda"})
      .by_hand(device_field())
      .means("What every rank computes on: the processor, or an NVIDIA GPU (docs/gpu.md).");
  t.row("cuda", section).means("Settings of `device: cuda`.");
  t.row("cuda.devices", integers)
      .by_default("[0]")
      .at_least(0)
      .at_most(device_index_max)
      .by_hand(devices_field())
      .means(
          "The GPU that all ranks compute on, by its index among those that CUDA_VISIBLE_DEVICES leaves. One for now: "
          "a list of several is refused.");
  t.row("cuda.deterministic", boolean)
      .by_default("false")
      .into<&job::cuda, &cuda_section::deterministic>()
      .means(
          "Ask LibTorch for kernels that add in one order: a run that is run again on the same GPU has the same bits. "
          "Without it the backward of attention adds in the order in which blocks of threads come.");
  t.row("cuda.tf32", boolean)
      .by_default("false")
      .into<&job::cuda, &cuda_section::tf32>()
      .means(
          "Round the factors of fp32 products to 10 bits (TF32), for speed; sums stay fp32. Products of 16-bit types "
          "are "
          "the same either way.");
  t.row("cuda.memory_limit", bytes)
      .by_default("0")
      .at_least(0)
      .into<&job::cuda, &cuda_section::memory_limit>()
      .means(
          "Memory of a GPU that all ranks on it may use together, activations included: a plan that needs more is "
          "refused, and `troupe plan --fit` looks for tiers that need less. 0: all that the GPU has.");
  t.row("steps", integer).at_least(1).needed().into<&job::steps>().means("Optimizer steps to run.");
  t.row("output", path)
      .into<&job::output>()
      .means(
          "The folder for what the run writes; by default runs/ and the file's name without extension, in the current "
          "folder.");
  t.row("gradient_order", text)
      .by_default("automatic")
      .one_of({"automatic", "per_micro_batch", "per_step"})
      .by_hand(order_field())
      .means(
          "What is summed first: ranks, for every micro-batch, or a rank's micro-batches, once a step; by default what "
          "the stage's memory promise asks for.");
  t.row("tied_gradients", text)
      .by_default("automatic")
      .one_of({"automatic", "in_bucket", "per_use"})
      .by_hand(tied_field())
      .means(
          "Where the gradients of a weight that several units use are added: in one bucket, micro-batch by "
          "micro-batch, "
          "or a sum for each use first, and these once a step; by default per_use with parallel.pipeline above 1, else "
          "in_bucket. Bits agree between runs that say the same.");
  add_data_keys(t);
  add_skip_keys(t);
  add_group_keys(t);
  add_parallel_keys(t);
  add_evaluation_keys(t);
  add_telemetry_keys(t);
  add_sample_keys(t);
}

}  // namespace troupe::config
