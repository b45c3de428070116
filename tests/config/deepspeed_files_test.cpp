// Tests DeepSpeed configuration files of all ages, and Accelerate's: each is accepted, or refused with key and reason.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>

#include "config/explain.hpp"
#include "config/keys/key_table.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(deepspeed_files)

using namespace troupe::config;

namespace {

const load_options plain{.overrides = {}, .strict = false, .steps = {}, .read_as = reading::either};

struct sample {
  std::string text;
  std::string refused_with = {};  ///< part of the file's only error, or empty if the file is accepted
};

/// Files of different years: DeepSpeed's first tutorials, ZeRO-Offload, Hugging Face, ZeRO-Infinity, compression.
const sample samples[] = {
    {R"({"train_batch_size": 8, "optimizer": {"type": "Adam", "params": {"lr": 0.00015}}, "fp16": {"enabled": true}})"},
    {R"({"train_batch_size": 64, "zero_optimization": true, "allgather_size": 200000000, "fp16": {"enabled": true}})"},
    {R"({"train_micro_batch_size_per_gpu": 8, "zero_optimization": {"stage": 2, "cpu_offload": true}})"},
    {R"({"train_batch_size": "auto", "zero_optimization": {"stage": 3, "offload_param": {"device": "cpu"},
         "stage3_prefetch_bucket_size": "auto", "sub_group_size": 1e9}, "fp16": {"enabled": "auto"}})"},
    {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme", "nvme_path": "/disk",
         "buffer_count": 4, "fast_init": false}}, "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1}})"},
    {R"({"optimizer": {"type": "OneBitAdam", "params": {"lr": 4e-4, "freeze_step": 23000,
         "comm_backend_name": "nccl"}}, "fp16": {"enabled": true, "loss_scale": 0}})"},
    {R"({"optimizer": {"type": "Lamb", "params": {"lr": 11e-3, "max_coeff": 0.3, "min_coeff": 0.01}}})"},
    {R"({"optimizer": {"type": "SGD", "params": {"lr": 0.1, "momentum": 0.9, "nesterov": true}}})"},
    {R"({"scheduler": {"type": "OneCycle", "params": {"cycle_min_lr": 1e-5, "cycle_max_lr": 1e-3,
         "cycle_first_step_size": 1000}}})"},
    {R"({"scheduler": {"type": "WarmupDecayLR", "params": {"total_num_steps": "auto", "warmup_max_lr": "auto"}}})"},
    {R"({"amp": {"enabled": true, "opt_level": "O1"}, "fp16": {"enabled": false}})"},
    {R"({"bfloat16": {"enabled": true}, "communication_data_type": "fp32"})"},
    {R"({"sparse_attention": {"mode": "fixed", "block": 16, "different_layout_per_head": true}})"},
    {R"({"wall_clock_breakdown": false, "tensorboard": {"enabled": true, "output_path": "runs/"}})"},
    {R"({"activation_checkpointing": {"partition_activations": true, "cpu_checkpointing": true}})"},
    {R"({"pipeline": {"seed_layers": true, "activation_checkpoint_interval": 1}, "steps_per_print": 10})"},
    {R"({"pipeline": {"stages": "auto", "partition": "parameters", "pipe_partitioned": true, "use_reentrant": true}})"},
    {R"({"pipeline": {"partition": "profile"}})",
     "pipeline.partition: wanted best, uniform, parameters, type:REGEX or"},
    {R"({"compression_training": {"weight_quantization": {"shared_parameters": {"enabled": true},
         "different_groups": {"wq1": {"params": {"start_bits": 8, "target_bits": 4}, "modules": ["attention.self"]}}}}})"},
    {R"({"data_efficiency": {"enabled": true, "data_sampling": {"enabled": true, "curriculum_learning": {
         "enabled": true, "curriculum_metrics": {"seqlen": {"min_difficulty": 8, "difficulty_type": "value"}}}}}})"},
    {R"({"elasticity": {"enabled": true, "max_train_batch_size": 2000, "micro_batch_sizes": [2, 4, 6]}})"},
    {R"({"compile": {"deepcompile": true}, "zero_optimization": {"stage": 3}})"},
    {R"({"tensor_parallel": {"autotp_size": 4}, "zero_optimization": {"stage": 2}})"},
    {R"({"checkpoint": {"tag_validation": "WARN", "writer": {"type": "FAST", "io_buffer_size": 67108864}}})"},
    {"{\n  # remarks of several kinds\n  \"fp16\": {\"enabled\": true,}, // and\n  /* commas */ \"seed\": 42,\n}"},
    {R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})"},
    {R"({"zero_optimization": {"stage": "3", "sub_group_size": 0, "reduce_bucket_size": "5e8", "overlap_comm": 1}})"},
    {R"({"fp16": {"enabled": "yes", "loss_scale": "0"}, "csv_monitor": {"enabled": "False"}})"},
    {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0, 0], "warmup_type": "cosine"}}})"},
    {R"({"name": "my run", "train_batch_size": 16, "bert_token_file": "bert-large"})"},
    {R"({"train_batch_size": 32, "train_micro_batch_size_per_gpu": 3})", "train_batch_size: wanted a multiple of"},
    {R"({"fp16": {"enabled": true}, "bf16": {"enabled": true}})", "bf16.enabled: fp16.enabled and bf16.enabled"},
    {R"({"zero_optimization": {"stage": 4}})", "zero_optimization.stage: wanted an integer from 0 to 3, got 4"},
    {R"({"zero_optimization": {"stage": 3, "offload_optimizer": {"device": "nvme"}}})",
     "zero_optimization.offload_optimizer.nvme_path: wanted a path, got nothing"},
    {R"({"zero_optimization": {"stage": 2, "overlap_com": true}})",
     "the nearest known one is zero_optimization.overlap_comm"},
    {R"({"tensorboard": {"enabled": true, "log_dir": "x"}})", "tensorboard.log_dir: unknown key"},
    {R"({"optimizer": {"type": "Adam", "params": {"max_grad_norm": 1}}})", "use gradient_clipping at the top level"},
    {R"({"optimizer": {"type": "Adm"}})", "optimizer.type: wanted one of adam, adamw, adagrad"},
    {R"({"optimizer": {"type": "OneBitLamb"}, "zero_optimization": {"stage": 1}})",
     "optimizer.type: onebitlamb: wanted"},
    {R"({"train_batch_size": 8, "train_batch_size": 8})", "train_batch_size: given twice, first at line 1, column 2"},
    {"{train_batch_size: 8\n  # no quotes, no commas\n  fp16: {enabled: True}\n  'seed': 1, tensorboard: {\n"
     "    enabled: true\n    output_path: /home/me/a, b\n  }\n}"},
    {"{\"train_batch_size\": CONFIG_BATCH_SIZE,\n \"steps_per_print\": 1}",
     "train_batch_size: wanted an integer from 1 to 1000000000000, got CONFIG_BATCH_SIZE"},
    {R"({"fp16": {"enabled" true}})", "not readable as JSON here: 'true'"},
    {R"({"fp16": {"enabled": "true}})", "not readable as JSON: the text ends too early"},
    {R"({"fp16": {"a\ud800": 1}})", "not readable as JSON here"},
    {R"({"fp16": {"enabled": "maybe"}})", "fp16.enabled: wanted true or false, got \"maybe\""},
    {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": [0, 1]}}})",
     "scheduler.params.warmup_min_lr: wanted a number of at least 0, got [0, 1]"},
    {R"({"scheduler": {"type": "WarmupLR", "params": {"total_num_steps": 9}}})",
     "a key of WarmupDecayLR, WarmupCosineLR"},
    {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": 0}}})",
     "wanted an integer of at least 1, got 0"},
    {R"({"optimizer": {"type": "SGD", "params": {"betas": [0.9, 0.99]}}})", "optimizer.params.betas: a key of adam"},
    {R"({"optimizer": {"type": "AdamW", "params": {"lr": 3e-5, "weightdecay": 0.1}}})",
     "optimizer.params.weightdecay: unknown key; the nearest known one is optimizer.params.weight_decay"},
    {R"({"optimizer": {"params": {"lr": 3e-5, "beta1": 0.9}, "type": "Adam"}})", "optimizer.params.beta1: unknown key"},
    {R"({"scheduler": {"type": "WarmupLR", "params": {"warmup_steps": 9}}})",
     "scheduler.params.warmup_steps: unknown key; the nearest known one is scheduler.params.warmup_"},
    {R"({"optimizer": {"type": "Muon", "params": {"lr": 3e-5, "of_mine": 1}}})"},
    {R"({"scheduler": {"type": "StepLR", "params": {"step_size": 9}}})"},
    {R"({"optimizer": {"params": {"lr": 3e-5, "of_mine": 1}}})"},
    {R"({"train_micro_batch_size_per_gpu": "4"})", "wanted an integer from 1 to 1000000000000, got \"4\""},
    {R"({"elasticity": {"enabled": true}})", "elasticity.max"},
};

loaded accepted(const std::string& text, const std::string& name = "ds.json") {
  auto l = load_text(text, name, "/base", plain);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error()) + text));
  return std::move(*l);
}

std::string value_of(const loaded& l, const std::string& key) {
  for (const effective_value& v : l.values)
    if (v.key == key) return v.value + (v.held_back ? " held back" : "");
  return "no " + key;
}

}  // namespace

BOOST_AUTO_TEST_CASE(each_file_is_accepted_or_refused_with_key_and_reason) {
  for (const sample& s : samples) {
    const auto l = load_text(s.text, "ds.json", "/base", plain);
    if (s.refused_with.empty()) {
      BOOST_TEST(l.has_value(), s.text << (l ? "" : render(l.error())));
      continue;
    }
    BOOST_TEST(!l.has_value(), s.text);
    if (!l) BOOST_TEST(render(l.error()).find(s.refused_with) != std::string::npos, render(l.error()));
  }
}

BOOST_AUTO_TEST_CASE(given_values_survive_explain_and_effective_yaml) {
  for (const sample& s : samples) {
    if (!s.refused_with.empty()) continue;
    const loaded first = accepted(s.text);
    BOOST_TEST(first.deepspeed_only);
    const std::string yaml = effective_yaml(first);
    const loaded second = accepted(yaml, "again.yaml");
    BOOST_TEST(effective_yaml(second) == yaml);
    BOOST_TEST(!explain_json(first).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_file_broken_at_random_is_refused_where_it_is_broken) {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto& rows = key_table();
    const key_info& row = rows[random() % rows.size()];
    const bool fits = row.support.refusal.empty() && !row.any_name() && row.type != value_type::any &&
                      row.type != value_type::section && row.key != "deepspeed_config";
    if (!fits) continue;
    // No key accepts a list that contains a mapping.
    std::string text = "[{\"not\": 1}]";
    std::string key = row.key;
    for (size_t dot = key.rfind('.'); dot != std::string::npos; dot = key.rfind('.')) {
      // The section lora needs a key that names layers.
      const bool more = row.section() == "lora" && row.name() != "targets";
      text = std::string("{") + (more ? "\"targets\": [\"q_proj\"], " : "") + "\"" + key.substr(dot + 1) + "\":\n" +
             text + "}";
      key = key.substr(0, dot);
    }
    text = "{\"" + key + "\":\n" + text + "}";
    const auto l = load_text(text, "ds.json", "/base", plain);
    BOOST_TEST_REQUIRE(!l.has_value(), text);
    const auto lines = static_cast<int>(std::ranges::count(text, '\n')) + 1;
    BOOST_TEST((l.error()[0].key == row.key && l.error()[0].line == lines), render(l.error()) + text);
  }
}

BOOST_AUTO_TEST_CASE(the_same_file_is_a_refusal_for_a_job) {
  load_options job;
  const std::string text = R"({"zero_optimization": {"stage": 3, "zero_quantized_weights": true}})";
  BOOST_TEST(value_of(accepted(text), "zero_optimization.zero_quantized_weights") == "true held back");
  BOOST_TEST(errors_of(text, job, "ds.json").find("only false is supported in this version") != std::string::npos);
  BOOST_TEST(errors_of(text, job, "ds.json").find("steps: wanted") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(sections_that_their_presence_switches_on_are_warned_about) {
  const auto warned = [](const std::string& text) { return render(accepted(text).warnings); };
  const std::string models = "models with their own attention asked for it; DeepSpeed has dropped it";
  BOOST_TEST(warned(R"({"sparse_attention": {}})") ==
             "ds.json:1:2: warning: sparse_attention: no effect: " + models + "\n");
  BOOST_TEST(
      warned(R"({"weight_quantization": {"num_bits": 8}})") ==
      "ds.json:1:2: warning: weight_quantization: no effect: Troupe trains; quantised weights are for inference\n");
  BOOST_TEST(warned(R"({"datastates_ckpt": {}})") ==
             "ds.json:1:2: warning: datastates_ckpt: no effect: checkpoint.asynchronous sets it; they go to the folder "
             "of the run\n");
  BOOST_TEST(warned(R"({"zero_optimization": {"zeropp_loco_param": {"err_beta": 0.8}}})") ==
             "ds.json:1:24: warning: zero_optimization.zeropp_loco_param: acts once there is quantised communication "
             "(ZeRO++)\n");
  for (const char* off : {R"({"weight_quantization": {"enabled": false}})", R"({"sparse_attention": null})"})
    BOOST_TEST(warned(off).find(": warning: weight_quantization: ") == std::string::npos, warned(off));
  load_options strict = plain;
  strict.strict = true;
  BOOST_TEST(
      errors_of(R"({"datastates_ckpt": {}})", strict, "ds.json").starts_with("ds.json:1:2: error: datastates_ckpt"));
}

BOOST_AUTO_TEST_CASE(older_offload_keys_are_shown_as_they_were_given) {
  const loaded l = accepted(R"({"zero_optimization": {"stage": 2, "cpu_offload": true}})");
  BOOST_TEST(value_of(l, "zero_optimization.cpu_offload") == "true");
  BOOST_TEST(value_of(l, "zero_optimization.offload_optimizer.device") == "cpu");
  const std::string text = explain_text(l, shown_keys::given);
  BOOST_TEST(text.find("zero_optimization.cpu_offload = true  (ds.json:1:51)") != std::string::npos, text);
  BOOST_TEST(text.find("zero_optimization.stage = 2  (ds.json:1:33)") != std::string::npos, text);
  // The explanation has only these two keys, each followed by a line that explains it.
  BOOST_TEST(std::ranges::count(text, '\n') == 4, text);
}

BOOST_AUTO_TEST_CASE(an_elastic_checkpoint_is_no_error_at_stage_3) {
  BOOST_TEST(render(accepted(R"({"zero_optimization": {"stage": 3, "elastic_checkpoint": true}})").warnings) ==
             "ds.json:1:36: warning: zero_optimization.elastic_checkpoint: no effect: every checkpoint loads at any "
             "degree\n");
}

BOOST_AUTO_TEST_CASE(texts_that_deepspeed_converts_are_values) {
  const loaded l = accepted(R"({"zero_optimization": {"stage": "2", "reduce_bucket_size": "5e8"},
  "fp16": {"enabled": "yes"}, "scheduler": {"type": "WarmupLR", "params": {"warmup_max_lr": [0.1], "warmup_type": "x"}}})");
  BOOST_TEST(l.config.zero_optimization.stage == 2U);
  BOOST_TEST(l.config.zero_optimization.reduce_bucket_size == 500'000'000U);
  BOOST_TEST(l.config.fp16.enabled);
  BOOST_TEST(l.config.scheduler.warmup_max_lr.value_or(0) == 0.1);
  BOOST_TEST((l.config.scheduler.warmup_type == troupe::core::warmup_shape::log));
  BOOST_TEST(render(l.warnings) ==
             "ds.json:1:24: warning: zero_optimization.stage: \"2\" is read as 2\n"
             "ds.json:1:38: warning: zero_optimization.reduce_bucket_size: \"5e8\" is read as 5e8\n"
             "ds.json:2:12: warning: fp16.enabled: \"yes\" is read as true\n"
             "ds.json:2:100: warning: scheduler.params.warmup_type: \"x\" is read as \"log\"\n");
  // Unlike in a DeepSpeed file, texts in a file in Troupe's own format are not converted to numbers.
  BOOST_TEST(errors_of(smallest_with("stage: 3", "stage: \"3\"")) ==
             "j.yaml:8:28: error: zero_optimization.stage: wanted an integer from 0 to 3, got \"3\"\n");
}

BOOST_AUTO_TEST_CASE(base64_of_json_is_json) {
  // The file is {"zero_optimization": {"stage": 2}} in Base64.
  const loaded l = accepted("eyJ6ZXJvX29wdGltaXphdGlvbiI6IHsic3RhZ2UiOiAyfX0=\n", "ds.txt");
  BOOST_TEST(l.config.zero_optimization.stage == 2U);
  const auto named = troupe::config::load("eyJ6ZXJvX29wdGltaXphdGlvbiI6IHsic3RhZ2UiOiAyfX0=", plain);
  BOOST_TEST_REQUIRE(named.has_value());
  BOOST_TEST(named->config.zero_optimization.stage == 2U);
}

BOOST_AUTO_TEST_CASE(files_of_accelerate_are_read) {
  const std::string text = R"(compute_environment: LOCAL_MACHINE
deepspeed_config:
  gradient_accumulation_steps: 4
  offload_optimizer_device: none
  zero3_init_flag: true
  zero_stage: 3
  zero3_save_16bit_model: true
distributed_type: DEEPSPEED
mixed_precision: bf16
num_processes: 2
)";
  const loaded l = accepted(text, "default_config.yaml");
  BOOST_TEST(l.config.zero_optimization.stage == 3U);
  BOOST_TEST(l.config.gradient_accumulation_steps == 4U);
  BOOST_TEST(l.config.bf16.enabled);
  BOOST_TEST(l.config.parallel.data == 2U);
  BOOST_TEST(value_of(l, "zero_optimization.stage3_gather_16bit_weights_on_model_save") == "true");
  BOOST_TEST(errors_of("distributed_type: DEEPSPEED\ndeepspeed_config: {deepspeed_config_file: none.json}\n", plain)
                 .find("/base/none.json: the file does not exist") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(merge_keys_fill_in_keys_that_are_not_given) {
  const std::string text = R"(common: &common
  loss_scale: 8
  hysteresis: 3
fp16:
  <<: *common
  hysteresis: 5
)";
  const auto l = load_text(text, "ds.yaml", "/base", plain);
  BOOST_TEST_REQUIRE(!l.has_value());  // `common` is no known key of a configuration
  BOOST_TEST(l.error().size() == 1U);
  const loaded good = accepted("bf16: &b {enabled: false}\nfp16:\n  <<: [*b]\n  loss_scale: 8\n", "ds.yaml");
  BOOST_TEST(good.config.fp16.loss_scale == 8);
  BOOST_TEST(value_of(good, "fp16.enabled") == "false");
  BOOST_TEST(errors_of("fp16: {<<: 3}\n", plain).find("wanted a mapping, or a list of mappings, to merge, got 3") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(strict_makes_every_remark_an_error) {
  load_options strict = plain;
  strict.strict = true;
  BOOST_TEST(errors_of(R"({"my_own": 1})", strict, "ds.json").find("error: my_own: unknown key") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
