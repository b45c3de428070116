// Tests refused files, with the exact position and text of each error.
#include <fmt/format.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>

#include "tests/check_ok.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(refusals)

using namespace troupe::config;

namespace {

/// Returns the errors of the smallest file with `line` added as line 9.
std::string line_9(const std::string& line) { return errors_of(smallest + line + "\n"); }
std::string zero(const std::string& keys) { return errors_of(smallest_with("stage: 3", keys)); }

}  // namespace

BOOST_AUTO_TEST_CASE(all_errors_of_a_file_come_at_once_and_in_its_order) {
  BOOST_TEST(errors_of("steps: 0\nmodel: {model_type: gpt2, n_layer: two}\nsede: 1\n"
                       "zero_optimization: {stage: 7, reduce_scatter: yes}\n") ==
             "j.yaml:1:1: error: train_batch_size: wanted train_batch_size = train_micro_batch_size_per_gpu x "
             "gradient_accumulation_steps x 1 data-parallel ranks, got none, none and none: give train_batch_size or "
             "train_micro_batch_size_per_gpu\n"
             "j.yaml:1:1: error: data.text: wanted a path (or data.sources), got nothing: the key is required\n"
             "j.yaml:1:8: error: steps: wanted an integer of at least 1, got 0\n"
             "j.yaml:2:36: error: model.n_layer: wanted an integer from 1 to 4096, got two\n"
             "j.yaml:3:1: error: sede: unknown key; the nearest known one is seed\n"
             "j.yaml:4:28: error: zero_optimization.stage: wanted an integer from 0 to 3, got 7\n"
             "j.yaml:4:47: error: zero_optimization.reduce_scatter: wanted true or false, got yes\n");
}

BOOST_AUTO_TEST_CASE(an_unknown_key_is_refused_with_the_nearest_known_one) {
  BOOST_TEST(zero("stage: 3, overlap_com: true") ==
             "j.yaml:8:31: error: zero_optimization.overlap_com: unknown key; the nearest known one is "
             "zero_optimization.overlap_comm\n");
  BOOST_TEST(line_9("stage: 3") ==
             "j.yaml:9:1: error: stage: unknown key; the nearest known one is zero_optimization.stage\n");
  BOOST_TEST(zero("stage:3") ==
             "j.yaml:8:21: error: zero_optimization.stage:3: wanted a space after the colon: stage: 3\n");
  BOOST_TEST(line_9("optimiser: {}") ==
             "j.yaml:9:1: error: optimiser: unknown key; the nearest known one is optimizer\n");
  BOOST_TEST(errors_of(smallest_with("n_layer", "n_layers")) ==
             "j.yaml:1:27: error: model.n_layers: unknown key; the nearest known one is model.n_layer\n");
  BOOST_TEST(line_9("a.b: 1").starts_with("j.yaml:9:1: error: a.b: unknown key; the nearest known one is "));
}

BOOST_AUTO_TEST_CASE(padding_to_buckets_is_refused_with_what_replaces_it) {
  const std::string wanted = "error: data.packing: wanted one of best_fit, none, got buckets";
  const std::string why =
      ": a step is planned for rows of data.sequence_length tokens alone, which best_fit fills with several samples, "
      "so "
      "that hardly any padding is computed\n";
  for (const std::string form : {"chat", "text"}) {
    const auto said = errors_of(smallest_with("{text: corpus.txt}", "{" + form + ": a, packing: buckets}"));
    BOOST_TEST(said.ends_with(wanted + why), said);
  }
  const auto other = errors_of(smallest_with("{text: corpus.txt}", "{chat: a, packing: bucket}"));
  BOOST_TEST(other.ends_with("error: data.packing: wanted one of best_fit, none, got bucket\n"), other);
}

BOOST_AUTO_TEST_CASE(a_key_given_twice_is_refused) {
  BOOST_TEST(line_9("steps: 3") == "j.yaml:9:1: error: steps: given twice, first at line 5, column 1\n");
  BOOST_TEST(errors_of(smallest_with("{lr: 1.0e-3}", "{lr: 1, lr: 2}")) ==
             "j.yaml:7:42: error: lr: given twice, first at line 7, column 35\n");
  BOOST_TEST(
      zero("stage: 3, max_reuse_distance: 3") ==
      "j.yaml:8:93: error: zero_optimization.stage3_max_reuse_distance: given twice, first at line 8, column 31\n");
  BOOST_TEST(line_9("bf16: {}\nbfloat16: {}") == "j.yaml:10:1: error: bf16: given twice, first at line 9\n");
  BOOST_TEST(errors_of("{\"steps\": 1,\n \"steps\": 2, \"model\": {\"path\": \"m\"}, \"data\": {\"text\": \"c\"}, "
                       "\"train_batch_size\": 1}",
                       {}, "j.json") == "j.json:2:2: error: steps: given twice, first at line 1, column 2\n");
}

BOOST_AUTO_TEST_CASE(checkpoints_are_checked) {
  BOOST_TEST(line_9("checkpoint: {on_error: true}") ==
             "j.yaml:9:24: error: checkpoint.on_error: wanted one of continue, stop, got true\n");
  BOOST_TEST(line_9("checkpoint: {when_busy: queue}") ==
             "j.yaml:9:25: error: checkpoint.when_busy: wanted one of wait, skip, got queue\n");
  BOOST_TEST(line_9("checkpoint: {every_minutes: -1}") ==
             "j.yaml:9:29: error: checkpoint.every_minutes: wanted a number from 0 to 1000000, got -1\n");
  BOOST_TEST(line_9("checkpoint: {tag: best, keep_last: 3}") ==
             "j.yaml:9:36: error: checkpoint.keep_last: cannot be combined with checkpoint.tag, because only "
             "checkpoints without a tag are counted and removed; set it to 0, got 3\n");
  for (const std::string tag : {"../out", "a b", "{epoch}", "{step", "-x"})
    BOOST_TEST(line_9("checkpoint: {tag: '" + tag + "'}")
                   .starts_with("j.yaml:9:19: error: checkpoint.tag: wanted letters, digits, '.', '_', '-' and {step}"),
               tag);
  BOOST_TEST(line_9("checkpoint: {load: {tag: a}}") ==
             "j.yaml:9:26: error: checkpoint.load.tag: requires checkpoint.load.path, which states where to load from, "
             "got a without it\n");
  BOOST_TEST(line_9("checkpoint: {load: {module_only: true, path: \"\"}}") ==
             "j.yaml:9:46: error: checkpoint.load.path: wanted a path, got \"\"\n");
}

BOOST_AUTO_TEST_CASE(the_word_none_is_a_name_only_in_quotes) {
  BOOST_TEST(
      line_9("output: none") ==
      "j.yaml:9:9: error: output: wanted a path, got none: write null for no value, or \"none\" for this name\n");
  BOOST_TEST(line_9("checkpoint: {tag: None}") ==
             "j.yaml:9:19: error: checkpoint.tag: wanted text, got None: write null for no value, or \"None\" for this "
             "name\n");
  BOOST_TEST(errors_of(smallest, {{"checkpoint.tag=none"}}) ==
             "--set checkpoint.tag=none: error: checkpoint.tag: wanted text, got none: write null for no value, or "
             "\"none\" for this name\n");
  BOOST_TEST(line_9("output: \"none\"") == "");
  BOOST_TEST(line_9("checkpoint: {tag: null}") == "");
  BOOST_TEST(line_9("sample: {tokens: 1, prompt: none}") == "");
  BOOST_TEST(line_9("log_level: none") == "");
}

BOOST_AUTO_TEST_CASE(a_question_needs_a_chat_template_and_no_prompt) {
  BOOST_TEST(line_9("sample: {tokens: 8, question: 'Why?'}") ==
             "j.yaml:9:31: error: sample.question: wanted conversations or prompts to train on (data.chat, "
             "data.instruct), whose template renders the question, got other data: write the text's beginning as "
             "sample.prompt\n");
  BOOST_TEST(
      troupe::tests::has(line_9("sample: {tokens: 8, prompt: So, question: 'Why?'}"),
                         "error: sample.question: cannot be combined with sample.prompt: remove one of the two\n"));
}

BOOST_AUTO_TEST_CASE(a_path_does_not_end_with_a_line_end) {
  for (const std::string block : {">", "|"})
    BOOST_TEST(
        line_9("output: " + block + "\n  runs/x") ==
        "j.yaml:9:9: error: output: wanted a path, got \"runs/x\\n\", which ends with the end of a line: write it "
        "in the line of its key, or after >- or |-\n");
  BOOST_TEST(line_9("output: >-\n  runs/x") == "");
}

BOOST_AUTO_TEST_CASE(types_are_strict) {
  BOOST_TEST(line_9("prescale_gradients: 1") ==
             "j.yaml:9:21: error: prescale_gradients: wanted true or false, got 1\n");
  BOOST_TEST(line_9("prescale_gradients: \"true\"") ==
             "j.yaml:9:21: error: prescale_gradients: wanted true or false, got \"true\"\n");
  BOOST_TEST(line_9("gradient_accumulation_steps: 1.5") ==
             "j.yaml:9:30: error: gradient_accumulation_steps: wanted an integer from 1 to 1000000000000, got 1.5\n");
  BOOST_TEST(line_9("gradient_clipping: .inf") ==
             "j.yaml:9:20: error: gradient_clipping: wanted a number of at least 0, got .inf\n");
  BOOST_TEST(line_9("gradient_clipping: inf") ==
             "j.yaml:9:20: error: gradient_clipping: wanted a number of at least 0, got inf\n");
  BOOST_TEST(line_9("sample: {temperature: 0}") ==
             "j.yaml:9:23: error: sample.temperature: wanted a number above 0 and at most 100, got 0\n");
  BOOST_TEST(line_9("output: [a, b]") == "j.yaml:9:9: error: output: wanted a path, got [a, b]\n");
  BOOST_TEST(line_9("output: true") == "j.yaml:9:9: error: output: wanted a path, got true\n");
  BOOST_TEST(line_9("fp16: 3") == "j.yaml:9:7: error: fp16: wanted a mapping, got 3\n");
  BOOST_TEST(line_9("communication_data_type: int8") ==
             "j.yaml:9:26: error: communication_data_type: wanted one of fp16, bf16, fp32, got int8\n");
  BOOST_TEST(line_9("cluster: {stall_after: 5 weeks}") ==
             "j.yaml:9:24: error: cluster.stall_after: wanted seconds from 0 to 86400, such as 5, 500ms, 5s, 2min or "
             "1h, got 5 "
             "weeks\n");
  BOOST_TEST(errors_of(smallest_with("seed: 1", "seed:")) ==
             "j.yaml:4:1: error: seed: wanted an integer of at least 0, got nothing\n");
  BOOST_TEST(errors_of(smallest_with("seed: 1", "seed: -1")) ==
             "j.yaml:4:7: error: seed: wanted an integer of at least 0, got -1\n");
  BOOST_TEST(errors_of(smallest_with("seed: 1", "seed: 1e20")) ==
             "j.yaml:4:7: error: seed: wanted an integer of at least 0, got 1e20\n");
}

BOOST_AUTO_TEST_CASE(the_model_is_of_a_known_family_or_a_folder) {
  BOOST_TEST(errors_of(smallest_with("gpt2", "t5")) ==
             "j.yaml:1:21: error: model.model_type: wanted one of gpt2, llama, mistral, qwen2, qwen3, olmo2, "
             "granite, gemma2, gemma3_text, phi3, gpt_neox, smollm3, bert, roberta, got t5\n");
  const std::pair<std::string, std::string> near[] = {
      {"gemma", "gemma2"},      {"gpt_neo", "gpt_neox"},    {"phi", "phi3"},
      {"qwen2_moe", "qwen2"},   {"qwen3_next", "qwen3"},    {"llama4_text", "llama"},
      {"olmo", "olmo2"},        {"distilbert", "bert"},     {"xlm-roberta", "roberta"},
      {"camembert", "roberta"}, {"gemma3n", "gemma3_text"}, {"lamma", "llama"},
      {"GPT2", "gpt2"},         {"granitemoe", "granite"},  {"mixtral", "mistral"}};
  for (const auto& [name, nearest] : near)
    BOOST_TEST(
        errors_of(smallest_with("gpt2", name)).ends_with(", got " + name + " (the nearest is " + nearest + ")\n"),
        errors_of(smallest_with("gpt2", name)));
  for (const std::string other : {"mamba", "bloom", "falcon", "rwkv", "cohere"})
    BOOST_TEST(errors_of(smallest_with("gpt2", other)).ends_with(", got " + other + "\n"));
  BOOST_TEST(errors_of(smallest_with("model_type: gpt2, ", "")) ==
             "j.yaml:1:8: error: model.model_type: wanted gpt2, llama, mistral, qwen2, qwen3, olmo2, granite, "
             "gemma2, gemma3_text, phi3, gpt_neox, smollm3, bert or roberta (or model.path), got nothing: the key is "
             "required\n");
  BOOST_TEST(errors_of(smallest_with("n_layer", "num_hidden_layers")) ==
             "j.yaml:1:27: error: model.num_hidden_layers: a key of the llama or mistral or qwen2 or qwen3 or olmo2 "
             "or granite or gemma2 or gemma3_text or phi3 or gpt_neox or smollm3 or bert or roberta family, but "
             "model_type is gpt2\n");
  BOOST_TEST(errors_of(smallest_with("n_layer: 2", "path: gpt")) ==
             "j.yaml:1:33: error: model.path: wanted either path or the model's own keys, got model.model_type too\n");
  BOOST_TEST(errors_of(smallest_with("n_layer: 2", "add_cross_attention: true")) ==
             "j.yaml:1:48: error: model.add_cross_attention: only false is supported in this version, got true\n");
}

BOOST_AUTO_TEST_CASE(degrees_that_do_not_act_yet_are_refused) {
  for (const std::string axis : {"expert"})
    BOOST_TEST(errors_of(smallest_with("data: 2", axis + ": 2")) ==
               fmt::format("j.yaml:3:{}: error: parallel.{}: only 1 is supported in this version, got 2; it acts once "
                           "there is {} parallelism\n",
                           14 + axis.size(), axis, axis));
  BOOST_TEST(errors_of(smallest_with("data: 2", "data: 0")) ==
             "j.yaml:3:18: error: parallel.data: wanted an integer from 1 to 65536, got 0\n");
  const std::string pieces = "j.yaml:9:36: error: tensor_parallel.exchange_pieces: wanted ";
  const std::string cut = smallest + "tensor_parallel: {exchange_pieces: ";
  BOOST_TEST(errors_of(cut + "2}\n") == pieces + "1 without parallel.tensor above 1, got 2\n");
  BOOST_TEST(errors_of(cut + "65, autotp_size: 2}\n") == pieces + "an integer from 1 to 64, got 65\n");
}

BOOST_AUTO_TEST_CASE(activations_are_partitioned_with_norms_whatever_recomputes_them_or_it_is_told_why_not) {
  const auto partitioned = [](const std::string& recomputed, int ranks) {
    return fmt::format("{}{}tensor_parallel: {{autotp_size: {}}}\n", smallest, recomputed, ranks);
  };
  const std::string cut = "activation_checkpointing: {partition_activations: true";
  for (const std::string& recomputed :
       {cut + ", enabled: true}\n", cut + "}\npipeline: {activation_checkpoint_interval: 1}\n",
        cut + "}\ncompile: {deepcompile: true, offload_activation: true}\n"})
    BOOST_TEST_CONTEXT(recomputed) {
      const auto two = load_text(partitioned(recomputed, 2), "j.yaml", "/base");
      BOOST_TEST_REQUIRE(two.has_value());
      BOOST_TEST(two->config.parallel.sharded_norms);
      const std::string told = "j.yaml:9:28: warning: activation_checkpointing.partition_activations: no effect: ";
      BOOST_TEST(warnings_of(partitioned(recomputed, 1)).find(told + "parallel.tensor is 1\n") != std::string::npos);
    }
  BOOST_TEST(warnings_of(partitioned(cut + "}\n", 2)) ==
             "j.yaml:9:28: warning: activation_checkpointing.partition_activations: no effect: "
             "activation_checkpointing.enabled is false\n");
}

BOOST_AUTO_TEST_CASE(keys_of_a_hosts_layers_are_checked_and_told_where_they_have_no_effect) {
  const std::string host_job =
      "seed: 1\nsteps: 100\ntrain_micro_batch_size_per_gpu: 4\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n";
  load_options host;
  host.read_as = reading::host_job;
  const auto of_ours = [](const std::string& keys) {
    return warnings_of(smallest + "tensor_parallel: {" + keys + "}\n");
  };
  const auto of_hosts = [&](const std::string& keys) {
    return warnings_of(host_job + "tensor_parallel: {" + keys + "}\n", host);
  };
  const std::string key = "warning: tensor_parallel.";
  BOOST_TEST(of_ours("injection_policy_tuple: [o_proj]") ==
             "j.yaml:9:43: " + key +
                 "injection_policy_tuple: no effect: it applies only to the modules of a host program\n");
  BOOST_TEST(
      of_ours("kernel_inject: true") ==
      "j.yaml:9:34: " + key +
          "replace_with_kernel_inject: no effect: the models of Troupe's own families always have fused layers\n");
  BOOST_TEST(of_hosts("injection_policy_tuple: o_proj, autotp_size: 2").empty());
  BOOST_TEST(of_hosts("injection_policy_tuple: o_proj") ==
             "j.yaml:5:43: " + key + "injection_policy_tuple: no effect: parallel.tensor is 1\n");
  BOOST_TEST(of_hosts("vocab_parallel_lm_head: false") ==
             "j.yaml:5:43: " + key + "vocab_parallel_lm_head: no effect: parallel.tensor is 1\n");
  BOOST_TEST(of_hosts("injection_policy_tuple: ['']") ==
             "does not load: j.yaml:5:43: error: tensor_parallel.injection_policy_tuple: wanted ends of the names of "
             "linear layers, got an empty text\n");
  BOOST_TEST(of_hosts("injection_policy_tuple: {block: down}")
                 .starts_with("does not load: j.yaml:5:43: error: tensor_parallel.injection_policy_tuple: wanted a"));
}

BOOST_AUTO_TEST_CASE(degrees_that_several_keys_say_are_one) {
  const auto has = [](const std::string& all, const std::string& what) { return all.find(what) != all.npos; };
  const std::string job = smallest_with("data: 2", "data: 2, tensor: 2");
  BOOST_TEST(errors_of(job + "tensor_parallel: {autotp_size: 2, tp: {tp_size: 2}}\n").empty());
  BOOST_TEST(has(errors_of(job + "tensor_parallel: {autotp_size: 4}\n"),
                 "error: tensor_parallel.autotp_size: wanted 2, the value of parallel.tensor, got 4\n"));
  BOOST_TEST(has(
      errors_of(smallest + "tensor_parallel: {autotp_size: 4, tp: {tp_size: 2}}\n"),
      "error: tensor_parallel.tensor_parallel.tp_size: wanted 4, the value of tensor_parallel.autotp_size, got 2\n"));
  BOOST_TEST(has(errors_of(smallest + "sequence_parallel_size: 2\nsequence_parallel: {enabled: true, size: 4}\n"),
                 "error: sequence_parallel.size: wanted 2, the value of sequence_parallel_size, got 4\n"));
  BOOST_TEST(errors_of(smallest + "sequence_parallel_size: 2\nsequence_parallel: {size: 4}\n").empty());
}

BOOST_AUTO_TEST_CASE(degrees_that_do_not_multiply_are_refused) {
  BOOST_TEST(errors_of(smallest_with("data: 2", "data: 2, pipeline: 2, ranks: 8")) ==
             "j.yaml:3:41: error: parallel.ranks: wanted the product of the degrees, pipeline 2 x data 2 = 4, got 8\n");
  BOOST_TEST(errors_of(smallest_with("data: 2", "pipeline: 3, ranks: 8")) ==
             "j.yaml:3:32: error: parallel.ranks: wanted a multiple of the other degrees, pipeline 3, and at most "
             "65536 times them, got 8\n");
  BOOST_TEST(errors_of(smallest_with("data: 2", "tensor: 3, ranks: 8")) ==
             "j.yaml:3:30: error: parallel.ranks: wanted a multiple of the other degrees, pipeline 1 x tensor 3, "
             "and at most 65536 times them, got 8\n");
  BOOST_TEST(errors_of(smallest_with("data: 2", "pipeline: 4097")) ==
             "j.yaml:3:22: error: parallel.pipeline: wanted an integer from 1 to 4096, got 4097\n");
  BOOST_TEST(errors_of(smallest_with("data: 2", "data: 2, pipeline: 2, ranks: 4")) == "");
}

BOOST_AUTO_TEST_CASE(a_pipeline_is_checked_as_far_as_it_needs_no_model) {
  BOOST_TEST(line_9("pipeline: {partition: balanced}") ==
             "j.yaml:9:23: error: pipeline.partition: wanted best, uniform, parameters, type:REGEX or a list of the "
             "stages' first units, got balanced\n");
  BOOST_TEST(line_9("pipeline: {partition: []}") ==
             "j.yaml:9:23: error: pipeline.partition: wanted a first unit for each stage, got []\n");
  BOOST_TEST(line_9("pipeline: {partition: [0, -1]}") ==
             "j.yaml:9:23: error: pipeline.partition: wanted text, or a list of integers of at least 0, got [0, -1]\n");
  const std::string pattern = line_9("pipeline: {partition: 'type:('}");
  BOOST_TEST(pattern.starts_with("j.yaml:9:23: error: pipeline.partition: type: wanted an RE2 pattern, got '('"),
             pattern);
  BOOST_TEST(line_9("pipeline: {schedule: true}") == "j.yaml:9:22: error: pipeline.schedule: wanted text, got true\n");
  BOOST_TEST(line_9("pipeline: {activation_checkpoint_interval: 2}\nactivation_checkpointing: {enabled: false}") ==
             "j.yaml:9:44: error: pipeline.activation_checkpoint_interval: cannot be combined with "
             "activation_checkpointing.enabled: false; set it to 0, got 2\n");
  BOOST_TEST(line_9("tied_gradients: twice") ==
             "j.yaml:9:17: error: tied_gradients: wanted one of automatic, in_bucket, per_use, got twice\n");
}

BOOST_AUTO_TEST_CASE(selective_recomputation_is_refused_beside_what_wants_whole_units) {
  const auto with = [](const std::string& others) {
    return line_9("activation_checkpointing: {selective: true" + others + "}");
  };
  const std::string key = "j.yaml:9:39: error: activation_checkpointing.selective: wanted ";
  BOOST_TEST(with(", enabled: true") == "");
  BOOST_TEST(with("") == key + "activation_checkpointing.enabled: true, got false\n");
  BOOST_TEST(with(", enabled: true, partition_activations: true") ==
             key + "false with activation_checkpointing.partition_activations, got true\n");
  BOOST_TEST(with(", enabled: true, cpu_checkpointing: true") ==
             key + "false with cluster.offload_activations, for which units have to be recomputed, got true\n");
  BOOST_TEST(with(", enabled: true}\ncompile: {deepcompile: true, offload_activation: true") ==
             key + "false with compile.offload_activation, for which units have to be recomputed, got true\n");
}

BOOST_AUTO_TEST_CASE(keys_that_would_change_results_or_memory_are_refused_not_ignored) {
  BOOST_TEST(zero("stage: 3, zero_quantized_weights: true") ==
             "j.yaml:8:55: error: zero_optimization.zero_quantized_weights: only false is supported in this version, "
             "got true; it acts once there is quantised communication (ZeRO++)\n");
  BOOST_TEST(zero("stage: 3, legacy_stage1: true") ==
             "j.yaml:8:46: error: zero_optimization.legacy_stage1: only false is supported in this version, got true: "
             "DeepSpeed has dropped it\n");
  BOOST_TEST(line_9("gradient_allreduce_op: sum") ==
             "j.yaml:9:24: error: gradient_allreduce_op: only mean is supported in this version, got sum: one rule "
             "scales gradients, so that every way to shard gives the same bits\n");
  BOOST_TEST(line_9("eigenvalue: {enabled: true}") ==
             "j.yaml:9:23: error: eigenvalue.enabled: only false is supported in this version, got true; it acts once "
             "there is compression\n");
  const std::string weights = "compression_training: {weight_quantization: {shared_parameters: {enabled: true, ",
                    bits_8 = "},\n  different_groups: {all: {params: {start_bits: 8, target_bits: 8}}}}}",
                    bits_2 = "},\n  different_groups: {all: {params: {start_bits: 8, target_bits: 2}}}}}",
                    mixed = "fp16_mixed_quantize: {enabled: true}";
  const auto has = [](const std::string& text, const char* part) { return text.find(part) != std::string::npos; };
  BOOST_TEST(line_9(weights + mixed + bits_8) == "");
  BOOST_TEST(has(line_9(weights + "quantize_weight_in_forward: true, " + mixed + bits_8),
                 "fp16_mixed_quantize.enabled: wanted false with quantize_weight_in_forward"));
  BOOST_TEST(line_9(weights + "rounding: stochastic" + bits_8) == "");
  BOOST_TEST(has(line_9(weights + "rounding: stochastic" + bits_2),
                 "target_bits: wanted at least 3 with rounding stochastic, got 2"));
  BOOST_TEST(line_9("amp: {enabled: true}") ==
             "j.yaml:9:16: error: amp.enabled: only false is supported in this version, got true: Apex is gone; write "
             "fp16: {enabled: true} or bf16: {enabled: true}\n");
  BOOST_TEST(line_9("amp: {enabled: false, opt_level: O1}") == "");
}

BOOST_AUTO_TEST_CASE(pruning_that_leaves_nothing_or_says_too_little_is_refused) {
  const auto pruning = [](const std::string& kind, const std::string& shared, const std::string& group) {
    return line_9("compression_training: {" + kind + ": {shared_parameters: {enabled: true" + shared +
                  "},\n  different_groups: {all: {" + group + "}}}}");
  };
  const std::string root = "compression_training.";
  BOOST_TEST(pruning("row_pruning", "", "params: {dense_ratio: 0.5}") == "");
  BOOST_TEST(pruning("row_pruning", "", "params: {dense_ratio: 0}") ==
             "j.yaml:10:50: error: " + root +
                 "row_pruning.different_groups.all.params.dense_ratio: wanted a number "
                 "above 0 and at most 1, got 0\n");
  BOOST_TEST(pruning("row_pruning", "", "params: {dense_ratio: 0.5}, modules: [a, b], related_modules: [[c]]") ==
             "j.yaml:10:90: error: " + root +
                 "row_pruning.different_groups.all.related_modules: wanted a list of "
                 "patterns for each of the 2 patterns of modules, got 1\n");
}

BOOST_AUTO_TEST_CASE(layers_without_a_teacher_and_terms_of_nothing_are_refused) {
  const auto says = [](const std::string& keys, const std::string& what) {
    const std::string got = line_9(keys);
    BOOST_TEST(got.find("error: " + what + "\n") != std::string::npos, got);
    BOOST_TEST(got.starts_with("j.yaml:"), got);
  };
  const std::string layers = "compression_training.layer_reduction.";
  const auto reduced = [](const std::string& more) {
    return "compression_training: {layer_reduction: {enabled: true, keep_number_layer: 2, " + more + "}}";
  };
  says(reduced("module_name_prefix: transformer.h, teacher_layer: [0, 1]"),
       "model.teacher: wanted the model that layer_reduction takes layers from, got nothing");
  says(reduced("module_name_prefix: transformer.h, teacher_layer: [0, 1, 2]"),
       layers + "teacher_layer: wanted one for each of the 2 layers of keep_number_layer, got 3");
  says(reduced("teacher_layer: [0, 1]"), layers + "module_name_prefix: wanted a value: layer_reduction needs it");
  says(reduced("module_name_prefix: transformer.h"),
       layers + "teacher_layer: wanted a value: layer_reduction needs it");
  says("distillation: {enabled: true}", "model.teacher: wanted the model that distillation learns from, got nothing");
  says("loss: {z_loss: 0.1}\ndistillation: {enabled: true}",
       "loss.z_loss: cannot be combined with distillation, whose terms are the loss; remove one of the two");
  says("distillation: {enabled: true, terms: {cross_entropy: 0, logits: {weight: 0}}}",
       "distillation.terms.logits.weight: wanted a term with a weight above 0, got none");
  says("model: {teacher: x}\ndistillation: {enabled: true, layer_wise: {enabled: true}, terms: {attention: 1}}",
       "distillation.layer_wise.enabled: cannot be combined with terms.hidden_states or terms.attention, which "
       "compare whole models; set it to false or their weights to 0");
  says(reduced("module_name_prefix: transformer.h, teacher_layer: [0, 1]") +
           "\ndistillation: {enabled: true, terms: {hidden_states: 1}}",
       "distillation.terms.hidden_states: wanted 0, because teacher_layer begins with 0: the embedding is compared "
       "with the layer before it, which does not exist; set it to 0 or change teacher_layer");
}

BOOST_AUTO_TEST_CASE(groups_of_one_are_no_groups) {
  for (const char* off : {"zero_hpz_partition_size: 0", "zero_hpz_partition_size: 1", "mics_shard_size: 0"})
    BOOST_TEST(zero(std::string("stage: 3, ") + off) == "");
}

BOOST_AUTO_TEST_CASE(passes_that_cannot_act_and_schedules_that_go_back_are_refused) {
  const auto refused = [](const std::string& keys, const std::string& what) {
    const std::string got = line_9("compile: {deepcompile: true, " + keys + "}");
    BOOST_TEST(got.starts_with("j.yaml:9:"), got);
    BOOST_TEST(got.ends_with(": error: compile." + what + "\n"), got);
    BOOST_TEST(std::ranges::count(got, '\n') == 1, got);
  };
  refused("passes: [z1, prefetch]", "passes: wanted ZeRO stage 1 or 2 with z1, got stage 3");
  refused("passes: [autosp]", "passes: wanted parallel.sequence above 1 with autosp, got 1");
  refused("profile_steps: 5",
          "profile_steps: not accepted here: passes are chosen once, by predicted times, and no steps are measured or "
          "tried; remove the key");
  refused("passes: [autotp]", "passes: wanted parallel.tensor above 1 with autotp, got 1");
  refused("passes: [], schedule: [{step: 0, passes: []}]",
          "passes: cannot be combined with compile.schedule: remove one of the two");
  refused("schedule: [{step: 4, passes: []}, {step: 4, passes: [recompute]}]",
          "schedule[1].step: wanted a later step than the previous entry's, 4, got 4");
  const std::string units =
      "schedule: wanted fuse_activation in every entry, from step 0 on, or in none, because units cannot change "
      "between steps; got it in some entries";
  refused("schedule: [{step: 0, passes: []}, {step: 4, passes: [fuse_activation]}]", units);
  refused("schedule: [{step: 1, passes: [fuse_activation]}]", units);
  refused("schedule: [{step: 0, passes: []}, {step: 4, passes: [offload_optimizer]}]",
          "schedule: wanted offload_optimizer in every entry, from step 0 on, or in none, because states cannot move "
          "between steps; got it in some entries");
  BOOST_TEST(line_9("compile: {deepcompile: true, schedule: [{step: 0, passes: [fuse_activation]}, "
                    "{step: 4, passes: [prefetch, fuse_activation]}]}") == "");
  BOOST_TEST(line_9("compile: auto") == "");
  BOOST_TEST(line_9("compile: {deepcompile: true, passes: [recompute]}") == "");
  const std::string unknown = line_9("compile: {deepcompile: true, passes: [magic]}");
  BOOST_TEST(unknown.starts_with("j.yaml:9:"), unknown);
  BOOST_TEST(unknown.find("compile.passes: wanted ") != std::string::npos, unknown);
}

// The tested file has two data ranks.
BOOST_AUTO_TEST_CASE(shard_groups_that_do_not_divide_the_ranks_are_refused) {
  BOOST_TEST(zero("stage: 3, zero_hpz_partition_size: 2") == "");
  BOOST_TEST(zero("stage: 3, zero_hpz_partition_size: 3") ==
             "j.yaml:8:56: error: zero_optimization.zero_hpz_partition_size: wanted a divisor of the 2 ranks that "
             "parameters are sharded over, got 3\n");
  BOOST_TEST(zero("stage: 3, offload_param: {device: nvme, nvme_path: /tmp}, zero_hpz_partition_size: 2")
                 .find("zero_hpz_partition_size: wanted 1 with offload_param.device: nvme, because the second copy") !=
             std::string::npos);
  BOOST_TEST(zero("stage: 3, mics_shard_size: 2") == "");
  BOOST_TEST(zero("stage: 3, mics_shard_size: 1") == "");
  BOOST_TEST(zero("stage: 3, mics_shard_size: 3") ==
             "j.yaml:8:48: error: zero_optimization.mics_shard_size: wanted a divisor of the 2 ranks of parallel.data, "
             "got 3\n");
  BOOST_TEST(errors_of(smallest_with("data: 2}", "data: 2, shard: 4}"))
                 .find("parallel.shard: wanted a divisor of the 2 ranks of parallel.data, got 4\n") !=
             std::string::npos);
  const auto two = smallest_with("data: 2}", "data: 2, shard: 2}");
  BOOST_TEST(errors_of(std::string(two).replace(two.find("stage: 3"), 8, "stage: 3, mics_shard_size: 1"))
                 .find("parallel.shard: wanted 1, the value of mics_shard_size, got 2\n") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(errors_that_others_find_come_with_the_files_own) {
  load_options options;
  size_t asked = 0, found_sound = 0;
  options.also = [&](const job_config& c, so_far found) {
    ++asked;
    if (found == so_far::sound) ++found_sound;
    BOOST_TEST(c.model.hugging_face_json.find("n_layer") != std::string::npos);
    return std::vector<key_problem>{{"model.n_head", "wanted another"}, {"data.sequence_length", "wanted fewer"}};
  };
  BOOST_TEST(errors_of(smallest_with("seed: 1", "seed: no"), options) ==
             "j.yaml:1:59: error: model.n_head: wanted another\n"
             "j.yaml:2:7: error: data.sequence_length: wanted fewer\n"
             "j.yaml:4:7: error: seed: wanted an integer of at least 0, got no\n");
  BOOST_TEST(asked == 1U);
  BOOST_TEST(found_sound == 0U);
  // A model section with a key of a wrong type is not checked further.
  errors_of(smallest_with("n_layer: 2", "n_layer: two"), options);
  BOOST_TEST(asked == 1U);
  errors_of(smallest_with("seed: 1", "seed: 2"), options);
  BOOST_TEST(found_sound == 1U);
}

BOOST_AUTO_TEST_CASE(precision_sections_do_not_contradict_one_another) {
  BOOST_TEST(line_9("fp16: {enabled: true}\nbf16: {enabled: true}") ==
             "j.yaml:10:17: error: bf16.enabled: fp16.enabled and bf16.enabled are both true: wanted one of them\n");
  BOOST_TEST(
      line_9("data_types: {param_dtype: bf16}") ==
      "j.yaml:9:27: error: data_types.param_dtype: wanted fp32, as set by the fp16 and bf16 sections, got bf16\n");
  BOOST_TEST(line_9("data_types: {param_dtype: bfloat16}\nbf16: {enabled: true}") == "");
  BOOST_TEST(
      line_9("data_types: {param_dtype: fp64}\nbf16: {enabled: true}") ==
      "j.yaml:9:27: error: data_types.param_dtype: wanted bf16, as set by the fp16 and bf16 sections, got fp64\n");
  BOOST_TEST(line_9("data_types: {param_dtype: fp64, grad_accum_dtype: fp32}") ==
             "j.yaml:9:51: error: data_types.grad_accum_dtype: wanted no value with data_types.param_dtype: fp64, got "
             "fp32; remove this key\n");
}

BOOST_AUTO_TEST_CASE(loss_scales_are_valid_where_they_are_used) {
  BOOST_TEST(line_9("fp16: {loss_scale: -1}") ==
             "j.yaml:9:20: error: fp16.loss_scale: wanted a number of at least 0, got -1\n");
  BOOST_TEST(line_9("fp16: {loss_scale: true}") ==
             "j.yaml:9:20: error: fp16.loss_scale: wanted a number of at least 0, got true\n");
  BOOST_TEST(line_9("fp16: {loss_scale: .nan}") ==
             "j.yaml:9:20: error: fp16.loss_scale: wanted a number of at least 0, got .nan\n");
  BOOST_TEST(
      line_9("fp16: {enabled: true, loss_scale_window: 0}") ==
      "j.yaml:9:42: error: fp16.loss_scale_window: wanted an integer of at least 1 with a dynamic loss scale, got 0\n");
  BOOST_TEST(line_9("fp16: {enabled: true, min_loss_scale: 0}") ==
             "j.yaml:9:39: error: fp16.min_loss_scale: wanted a number above 0 with a dynamic loss scale, got 0\n");
  BOOST_TEST(line_9("fp16: {loss_scale_window: 0, min_loss_scale: 0}") == "");
  BOOST_TEST(line_9("fp16: {enabled: true, loss_scale: 128, loss_scale_window: 0}") == "");
  BOOST_TEST(line_9("fp16: {hysteresis: 0}") ==
             "j.yaml:9:20: error: fp16.hysteresis: wanted an integer from 1 to 1073741824, got 0\n");
}

BOOST_AUTO_TEST_CASE(scaling_before_the_sum_needs_a_sum_that_does_not_divide) {
  BOOST_TEST(line_9("prescale_gradients: true") ==
             "j.yaml:9:21: error: prescale_gradients: wanted false with stage 3 and reduce_scatter, which divide "
             "before they sum (or set reduce_scatter: false), got true\n");
  const std::string predivide = "gradient_predivide_factor: 2\n";
  BOOST_TEST(errors_of(smallest_with("stage: 3", "stage: 2") + predivide) ==
             "j.yaml:9:28: error: gradient_predivide_factor: wanted 1 with stage 2 and reduce_scatter, which divide "
             "before they sum (or set reduce_scatter: false), got 2\n");
  BOOST_TEST(errors_of(smallest_with("stage: 3", "stage: 1") + predivide) == "");
  BOOST_TEST(errors_of(smallest_with("stage: 3", "stage: 3, reduce_scatter: false") + predivide) == "");
  BOOST_TEST(line_9("gradient_predivide_factor: 0") ==
             "j.yaml:9:28: error: gradient_predivide_factor: wanted a number above 0, got 0\n");
}

/// Returns the errors of the smallest file with `text` as its optimizer.
std::string optimizer(const std::string& text) {
  return errors_of(smallest_with("{type: AdamW, params: {lr: 1.0e-3}}", text));
}
std::string scheduler(const std::string& text) { return line_9("scheduler: " + text); }

BOOST_AUTO_TEST_CASE(unknown_optimizers_are_refused) {
  BOOST_TEST(optimizer("{type: OneBitAdam}") ==
             "j.yaml:7:19: error: optimizer.type: wanted one of adam, adamw, adagrad, lion, sgd, lamb, muon, host, got "
             "OneBitAdam, which acts once there is this optimizer\n");
  BOOST_TEST(optimizer("{type: AdamW, params: {max_grad_norm: 1}}") ==
             "j.yaml:7:35: error: optimizer.params.max_grad_norm: not accepted here: use gradient_clipping at the top "
             "level\n");
  BOOST_TEST(
      optimizer("{type: AdamW, params: {betas: [0.9]}}") ==
      "j.yaml:7:42: error: optimizer.params.betas: wanted a list of 2 numbers of at least 0 and below 1, got [0.9]\n");
  BOOST_TEST(optimizer("{type: Lion, params: {betas: [0.9, 1]}}") ==
             "j.yaml:7:41: error: optimizer.params.betas: wanted a list of 2 numbers of at least 0 and below 1, got "
             "[0.9, 1]\n");
}

BOOST_AUTO_TEST_CASE(numbers_of_another_rule_are_refused) {
  BOOST_TEST(optimizer("{type: SGD, params: {betas: [0.9, 0.99]}}") ==
             "j.yaml:7:33: error: optimizer.params.betas: a key of adam, adamw, lion, lamb, muon, not of sgd; the most "
             "similar key of sgd is optimizer.params.lr\n");
  BOOST_TEST(optimizer("{type: AdamW, params: {momentum: 0.9}}")
                 .starts_with("j.yaml:7:35: error: optimizer.params.momentum: a key of sgd, muon, not of adamw; "));
  BOOST_TEST(optimizer("{type: SGD, params: {momentum: 0, nesterov: true}}") ==
             "j.yaml:7:56: error: optimizer.params.nesterov: true: wanted a momentum above 0 and dampening 0, got 0 "
             "and 0\n");
  BOOST_TEST(optimizer("{type: LAMB, params: {min_coeff: 2, max_coeff: 1}}") ==
             "j.yaml:7:45: error: optimizer.params.min_coeff: wanted a number of at most max_coeff, which is 1, got "
             "2\n");
  BOOST_TEST(optimizer("{type: Muon, params: {ns_steps: 0}}") ==
             "j.yaml:7:44: error: optimizer.params.ns_steps: wanted an integer from 1 to 100, got 0\n");
}

BOOST_AUTO_TEST_CASE(unknown_and_incomplete_schedulers_are_refused) {
  BOOST_TEST(scheduler("{type: StepLR}") ==
             "j.yaml:9:19: error: scheduler.type: wanted one of WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest, "
             "OneCycle, CosineAnnealingLR, LinearLR, PolynomialLR, CosineAnnealingWarmRestarts, "
             "cosine_with_restarts, warmup_stable_decay, got StepLR, which acts once there is this learning rate "
             "schedule\n");
  BOOST_TEST(scheduler("{type: WarmupCosineLR, params: {warmup_num_steps: 5}}") ==
             "j.yaml:9:43: error: scheduler.params.total_num_steps: wanted an integer of at least 1, got nothing: "
             "WarmupCosineLR needs it\n");
  BOOST_TEST(scheduler("{type: OneCycle, params: {cycle_min_lr: 0}}") ==
             "j.yaml:9:37: error: scheduler.params.cycle_max_lr: wanted a number of at least 0, got nothing: OneCycle "
             "needs it\n");
  BOOST_TEST(scheduler("{type: CosineAnnealingLR}") ==
             "j.yaml:9:12: error: scheduler.params.T_max: wanted an integer of at least 1, got nothing: "
             "CosineAnnealingLR needs it\n");
  BOOST_TEST(scheduler("{params: {warmup_num_steps: 5}}") ==
             "j.yaml:9:12: error: scheduler.type: wanted one of WarmupLR, WarmupDecayLR, WarmupCosineLR, LRRangeTest, "
             "OneCycle, CosineAnnealingLR, LinearLR, PolynomialLR, CosineAnnealingWarmRestarts, "
             "cosine_with_restarts, warmup_stable_decay, because scheduler.params is given, got nothing\n");
  BOOST_TEST(scheduler("{type: WarmupLR, params: {warmup_num_steps: 0}}") ==
             "j.yaml:9:56: error: scheduler.params.warmup_num_steps: wanted an integer of at least 1, got 0\n");
  BOOST_TEST(scheduler("{type: WarmupLR, params: {cos_min_ratio: 0.1}}")
                 .starts_with("j.yaml:9:38: error: scheduler.params.cos_min_ratio: a key of WarmupCosineLR, not of "
                              "WarmupLR; the most similar key of WarmupLR is scheduler.params.warmup_"));
  BOOST_TEST(scheduler("{type: WarmupLR, params: {num_warmup_steps: 9}}")
                 .starts_with("j.yaml:9:38: error: scheduler.params.num_warmup_steps: a key of CosineAnnealingLR, "
                              "LinearLR, PolynomialLR, CosineAnnealingWarmRestarts, cosine_with_restarts, "
                              "warmup_stable_decay, not of WarmupLR; the most similar key of WarmupLR is "
                              "scheduler.params.warmup_"));
  BOOST_TEST(scheduler("{type: warmup_stable_decay, params: {num_training_steps: 90}}") ==
             "j.yaml:9:48: error: scheduler.params.num_decay_steps: wanted an integer of at least 1, got nothing: "
             "warmup_stable_decay needs it\n");
  BOOST_TEST(scheduler("{type: warmup_stable_decay, params: {num_decay_steps: 60, num_warmup_steps: 31, "
                       "num_training_steps: 90}}") ==
             "j.yaml:9:112: error: scheduler.params.num_training_steps: wanted at least num_warmup_steps plus "
             "num_decay_steps, which are 31 and 60, got 90\n");
  BOOST_TEST(scheduler("{type: warmup_stable_decay, params: {num_decay_steps: 9, num_training_steps: 90, "
                       "decay_type: sqrt}}") ==
             "j.yaml:9:105: error: scheduler.params.decay_type: wanted one of cosine, linear, 1-sqrt, got sqrt\n");
  BOOST_TEST(scheduler("{type: OneCycle, params: {cycle_min_lr: 2, cycle_max_lr: 1}}") ==
             "j.yaml:9:69: error: scheduler.params.cycle_max_lr: cycle_min_lr must not exceed cycle_max_lr, got 2 "
             "and 1\n");
}

BOOST_AUTO_TEST_CASE(incomplete_sources_are_refused_and_sources_beside_a_text) {
  const auto data = [](const std::string& text) { return errors_of(smallest_with("{text: corpus.txt}", text)); };
  BOOST_TEST(data("{text: a, sources: [{text: b}]}") ==
             "j.yaml:2:14: error: data.text: cannot be combined with data.sources: remove one of the two\n");
  BOOST_TEST(data("{sources: []}") ==
             "j.yaml:2:17: error: data.sources: wanted a list of at least one source, got []\n");
  BOOST_TEST(data("{sources: {text: a}}") ==
             "j.yaml:2:17: error: data.sources: wanted a list of at most 1000 mappings, got {text: a}\n");
  BOOST_TEST(data("{sources: [a]}") == "j.yaml:2:18: error: data.sources[0]: wanted a mapping, got a\n");
  BOOST_TEST(data("{sources: [{text: a, weight: 0}]}") ==
             "j.yaml:2:36: error: data.sources[0].weight: wanted a number above 0, got 0\n");
  BOOST_TEST(data("{sources: [{text: a}, {weight: 1}]}") ==
             "j.yaml:2:29: error: data.sources[1].text: wanted a path, got nothing: every item of data.sources needs "
             "it\n");
  BOOST_TEST(data("{sources: [{txt: a, text: b}]}") ==
             "j.yaml:2:19: error: data.sources[0].txt: unknown key; the nearest known one is data.sources[].text\n");
  BOOST_TEST(data("{text: a, tokenizer: nowhere}") ==
             "j.yaml:2:28: error: data.tokenizer: wanted bytes, bytes-as-ids, or the path of a tokenizer.json, a "
             "SentencePiece .model, a list of words (tiktoken's, tekken.json), a folder with one of them or with "
             "vocab.json and merges.txt, or a GGUF file, got /base/nowhere, which does not exist\n");
}

BOOST_AUTO_TEST_CASE(parameter_groups_have_patterns) {
  BOOST_TEST(line_9("parameter_groups: [{match: \"a(\"}]") ==
             "j.yaml:9:28: error: parameter_groups[0].match: wanted a pattern as RE2 reads it, got \"a(\": missing ): "
             "a(\n");
  BOOST_TEST(line_9("parameter_groups: [{lr: 1}]") ==
             "j.yaml:9:20: error: parameter_groups[0].match: wanted text, got nothing: every item of parameter_groups "
             "needs it\n");
  BOOST_TEST(line_9("parameter_groups: [{match: a, lr: -1}]") ==
             "j.yaml:9:35: error: parameter_groups[0].lr: wanted a number of at least 0, got -1\n");
  BOOST_TEST(line_9("parameter_groups: [{match: a, trainable: 0}]") ==
             "j.yaml:9:42: error: parameter_groups[0].trainable: wanted true or false, got 0\n");
}

BOOST_AUTO_TEST_CASE(adapters_need_layers_and_go_without_what_they_cannot_be_combined_with) {
  BOOST_TEST(line_9("lora: {targets: q_proj, r: 4, alpha: 8, dropout: 0.1, rslora: true}").empty());
  BOOST_TEST(line_9("lora: {target_mods: [q_proj, v_proj], lora_r: 64, lora_alpha: 16}").empty());
  BOOST_TEST(line_9("lora: {r: 0, targets: q_proj}") ==
             "j.yaml:9:11: error: lora.r: wanted an integer from 1 to 65536, got 0\n");
  BOOST_TEST(line_9("lora: {dropout: 1, targets: q_proj}") ==
             "j.yaml:9:17: error: lora.dropout: wanted a number of at least 0 and below 1, got 1\n");
  const auto refuses = [](const std::string& lines, const std::string& words) {
    const std::string errors = line_9(lines);
    BOOST_TEST(errors.find("error: " + words) != std::string::npos, errors << "wanted " << words);
  };
  for (const char* section : {"lora: {}", "lora: {r: 4}", "lora: {alpha: 4}"})
    refuses(section, "lora.targets: wanted names of linear layers, such as q_proj, or all-linear, or lora.from, got");
  refuses("lora: {targets: [\"\"]}", "lora.targets: wanted names of layers, got an empty text");
  refuses("lora: {targets: q_proj, init: pissa}", "lora.init: wanted one of kaiming, gaussian, got pissa");
  refuses("lora: {targets: q_proj, offload: true}", "lora.offload: ");
  refuses("lora: {targets: q_proj, offload_ratio: 0.5}", "lora.offload_ratio: ");
  refuses("lora: {targets: q_proj, delay_lora_init: true}", "lora.delay_lora_init: ");
  refuses("lora: {targets: q_proj, quantization: true}", "lora.quantization: ");
  refuses("lora: {targets: q_proj, quantization_config: {q_bits: 8}}", "lora.quantization: ");
  BOOST_TEST(
      line_9("lora: {target_mods: [q_proj], lora_r: 64, lora_alpha: 16, base_weight_sharding: 1, offload: false, "
             "offload_ratio: 0.0, delay_lora_init: false}")
          .empty());
  refuses("lora: {targets: q_proj}\ndevice: cuda", "lora: device: cuda supports only a model without adapters");
  refuses("lora: {targets: q_proj}\ndistillation: {enabled: true}",
          "distillation.enabled: cannot be combined with the section lora yet");
  const auto tensor = [](const std::string& lora) {
    return errors_of(smallest_with("{data: 2}", "{tensor: 2}") + "lora: " + lora + "\n");
  };
  BOOST_TEST(tensor("{targets: q_proj}").find("lora") == std::string::npos, tensor("{targets: q_proj}"));
  const std::string dropped = tensor("{targets: q_proj, dropout: 0.1}");
  BOOST_TEST(dropped.find("lora.dropout: wanted 0 with parallel.tensor 2, whose ranks hold parts") != std::string::npos,
             dropped);
}

BOOST_AUTO_TEST_CASE(overrides_follow_the_same_rules) {
  BOOST_TEST(errors_of(smallest, {{"zero_optimization.stage=9"}}) ==
             "--set zero_optimization.stage=9: error: zero_optimization.stage: wanted an integer from 0 to 3, got 9\n");
  BOOST_TEST(errors_of(smallest, {{"zero_optimization.stag=1"}}) ==
             "--set zero_optimization.stag=1: error: zero_optimization.stag: unknown key; the nearest known one is "
             "zero_optimization.stage\n");
  BOOST_TEST(errors_of(smallest, {{"data.sources[0].weight=2"}}) ==
             "--set data.sources[0].weight=2: error: data.sources[0]: wanted the list as a whole: data.sources: "
             "[{...}, {...}]\n");
  BOOST_TEST(errors_of(smallest, {{"steps"}}) == "--set steps: error: wanted KEY=VALUE, as in --set steps=100\n");
  BOOST_TEST(errors_of(smallest, {{"steps="}}) ==
             "--set steps=: error: steps: wanted an integer of at least 1, got nothing\n");
  BOOST_TEST(
      errors_of(smallest, {{"steps=[1"}}) ==
      "--set steps=[1: error: wanted a name in front of ':', got a list or a mapping; is a bracket not closed?\n");
  BOOST_TEST(errors_of(smallest, {{"steps=\"1"}}).starts_with("--set steps=\"1: error: not readable as YAML: "));
  load_options none;
  none.steps = 0;
  BOOST_TEST(errors_of(smallest, none) == "--steps: error: steps: wanted an integer of at least 1, got 0\n");
}

BOOST_AUTO_TEST_SUITE_END()
