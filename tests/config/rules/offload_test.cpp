// Tests files with offload sections: the resulting fields, values that the plan chooses later, DeepSpeed's older
// spellings, and the explanation.
#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "config/explain.hpp"
#include "config/keys/key_rows.hpp"
#include "storage/queue/io_queue.hpp"
#include "tests/config/text.hpp"

BOOST_AUTO_TEST_SUITE(offload)

using namespace troupe::config;

namespace {

const load_options plain{.overrides = {}, .strict = false, .steps = {}, .read_as = reading::either};

loaded must_load(const std::string& text, const load_options& options = {}, const std::string& name = "j.yaml") {
  auto l = load_text(text, name, "/base", options);
  BOOST_TEST_REQUIRE(l.has_value(), (l ? std::string() : render(l.error()) + text));
  return std::move(*l);
}
loaded zero(const std::string& keys, const std::string& behind = "") {
  return must_load(smallest_with("stage: 3", keys) + behind);
}

/// The example for models beyond GPU and host memory in DeepSpeed's documentation.
const std::string infinity = R"({
  "train_micro_batch_size_per_gpu": 4,
  "bf16": {"enabled": true},
  "gradient_clipping": 0,
  "zero_optimization": {
    "stage": 3,
    "overlap_comm": true,
    "contiguous_gradients": true,
    "sub_group_size": 1e8,
    "offload_optimizer": {
      "device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_count": 5,
      "pipeline_read": true, "fast_init": false
    },
    "offload_param": {
      "device": "nvme", "nvme_path": "/local_nvme", "pin_memory": true, "buffer_size": 1e8, "max_in_cpu": 1e9
    }
  },
  "aio": {"block_size": 262144, "queue_depth": 32, "thread_count": 1, "single_submit": false, "overlap_events": true}
})";

std::string effect_in(const loaded& l, const std::string& key) {
  const auto all = nlohmann::json::parse(explain_json(l));
  for (const auto& item : all["values"])
    if (item["key"] == key) return item["effect"].get<std::string>() + ": " + item["reason"].get<std::string>();
  return "no " + key;
}
std::string origin(const loaded& l, const std::string& key) {
  for (const effective_value& v : l.values)
    if (v.key == key) return v.value + " | " + v.origin;
  return "no " + key;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_file_of_deepspeed_for_disks_fills_every_field) {
  const loaded l = must_load(infinity, plain, "ds.json");
  const job_config& c = l.config;
  const auto& optimizer = c.zero_optimization.offload_optimizer;
  const auto& param = c.zero_optimization.offload_param;
  BOOST_TEST((optimizer.device == offload_device::nvme && param.device == offload_device::nvme));
  BOOST_TEST(optimizer.nvme_path == "/local_nvme");
  BOOST_TEST((optimizer.buffer_count == 5U && optimizer.buffer_count_given));
  BOOST_TEST((param.buffer_count == 5U && !param.buffer_count_given));
  BOOST_TEST((optimizer.pipeline_read && !optimizer.pipeline_write && optimizer.pipeline_given));
  BOOST_TEST((param.buffer_size == 100'000'000U && param.max_in_cpu == 1'000'000'000U && param.max_in_cpu_given));
  BOOST_TEST((c.aio.block_size == 262144U && c.aio.queue_depth == 32U && c.aio.queue_depth_given));
  BOOST_TEST((c.aio.overlap_events && !c.aio.single_submit && !c.aio.intra_op_parallelism_given));
  BOOST_TEST((c.zero_optimization.sub_group_size == 100'000'000U && c.zero_optimization.sub_group_size_given));
  BOOST_TEST(!c.zero_optimization.reduce_bucket_size_given);
  BOOST_TEST(c.swap_folder() == "/local_nvme");
  BOOST_TEST(render(l.warnings) ==
             "ds.json:18:52: warning: aio.thread_count: deprecated, write intra_op_parallelism\n");
}

BOOST_AUTO_TEST_CASE(nothing_is_offloaded_unless_asked) {
  const job_config c = must_load(smallest).config;
  BOOST_TEST((c.zero_optimization.offload_param.device == offload_device::none));
  BOOST_TEST((c.zero_optimization.offload_optimizer.device == offload_device::none));
  BOOST_TEST((c.offload_activations == offload_device::none));
  BOOST_TEST((!c.zero_optimization.zenflow.enabled && !c.zero_optimization.sub_group_size_given));
  BOOST_TEST((c.swap_checksums && c.swap_gradients == swap_choice::automatic));
  BOOST_TEST(c.swap_folder().empty());
}

BOOST_AUTO_TEST_CASE(a_path_is_relative_to_its_file) {
  const loaded l = zero("stage: 3, offload_optimizer: {device: nvme, nvme_path: ../disk}");
  BOOST_TEST(l.config.swap_folder() == "/disk");
  const loaded other = zero("stage: 3, offload_param: {nvme_path: swap}",
                            "activation_checkpointing: {enabled: true}\ncluster: {offload_activations: nvme}\n");
  BOOST_TEST(other.config.swap_folder() == "/base/swap");
  BOOST_TEST(!other.config.zero_optimization.swaps());
}

BOOST_AUTO_TEST_CASE(open_choices_of_a_plan_stay_open_when_a_runs_file_is_read_again) {
  const loaded open = zero("stage: 3, offload_optimizer: {device: nvme, nvme_path: /disk, buffer_count: auto}");
  const loaded fixed = zero("stage: 3, sub_group_size: 1e9, offload_optimizer: {device: nvme, nvme_path: /disk}",
                            "aio: {queue_depth: 8}\n");
  const loaded again = must_load(effective_yaml(open)), fixed_again = must_load(effective_yaml(fixed));
  for (const loaded* l : {&open, &again}) {
    const job_config& c = l->config;
    BOOST_TEST((c.zero_optimization.offload_optimizer.device == offload_device::nvme));
    BOOST_TEST((!c.zero_optimization.sub_group_size_given && !c.zero_optimization.reduce_bucket_size_given));
    BOOST_TEST((!c.zero_optimization.offload_optimizer.buffer_count_given && !c.aio.queue_depth_given));
    BOOST_TEST((!c.zero_optimization.offload_optimizer.pipeline_given));
    BOOST_TEST(c.zero_optimization.sub_group_size == 1'000'000'000U);
  }
  for (const loaded* l : {&fixed, &fixed_again}) {
    BOOST_TEST((l->config.zero_optimization.sub_group_size_given && l->config.aio.queue_depth_given));
    BOOST_TEST(!l->config.zero_optimization.reduce_bucket_size_given);
  }
}

BOOST_AUTO_TEST_CASE(effective_files_keep_every_choice) {
  const std::string all =
      smallest_with("stage: 3",
                    "stage: 3, offload_optimizer: {device: cpu, ratio: 0.25, pin_memory: false, super_offload: false},"
                    " offload_param: {device: nvme, nvme_path: /disk, max_in_cpu: 7}");
  const loaded first = must_load(all +
                                 "aio: {block_size: 8192, single_submit: true}\n"
                                 "activation_checkpointing: {enabled: true, cpu_checkpointing: true}\n"
                                 "cluster: {swap_checksums: false, swap_gradients: false, "
                                 "offload_activations_units: 3}\n");
  const loaded second = must_load(effective_yaml(first));
  BOOST_TEST(effective_yaml(second) == effective_yaml(first));
  for (const loaded* l : {&first, &second}) {
    const job_config& c = l->config;
    BOOST_TEST((c.offload_activations == offload_device::cpu && c.offload_activations_units == 3U));
    BOOST_TEST((c.swap_gradients == swap_choice::never && !c.swap_checksums && c.aio.block_size == 8192U));
    BOOST_TEST(c.zero_optimization.offload_param.max_in_cpu == 7U);
  }
}

BOOST_AUTO_TEST_CASE(zenflow_is_on_if_its_section_is_there) {
  const std::string text = R"({"zero_optimization": {"stage": 2, "offload_optimizer": {"device": "cpu"},
    "zenflow": {"select_strategy": "step", "select_interval": 8, "update_interval": 4, "overlap_step": true}}})";
  const loaded l = must_load(text, plain, "ds.json");
  const zenflow_section& z = l.config.zero_optimization.zenflow;
  BOOST_TEST((z.enabled && z.select == select_strategy::step && z.select_interval == 8U && z.update_interval == 4U));
  load_options without = plain;
  without.overrides = {"zero_optimization.zenflow=null"};
  BOOST_TEST(!must_load(text, without, "ds.json").config.zero_optimization.zenflow.enabled);
}

BOOST_AUTO_TEST_CASE(late_updates_split_no_whole_parameters) {
  const std::string text = smallest_with("stage: 3", "stage: 3, offload_optimizer: {device: cpu}, zenflow: {}");
  BOOST_TEST(
      warnings_of(text, {{"optimizer={type: lamb}"}}) ==
      "j.yaml:8:74: warning: zero_optimization.zenflow: no effect: updates of lamb need whole parameters and are "
      "never split\n");
  BOOST_TEST(warnings_of(text, {{"optimizer={type: sgd}"}}) == "");
  const loaded on = must_load(text), again = must_load(effective_yaml(on));
  BOOST_TEST((on.config.zero_optimization.zenflow.enabled && again.config.zero_optimization.zenflow.enabled));
  BOOST_TEST(effective_yaml(again) == effective_yaml(on));
  BOOST_TEST(effect_in(on, "zero_optimization.zenflow.topk_ratio") == "acts: ");
  BOOST_TEST(!must_load(text, {{"zero_optimization.zenflow=null"}}).config.zero_optimization.zenflow.enabled);
}

BOOST_AUTO_TEST_CASE(old_offload_keys_become_the_sections_of_today) {
  const loaded l = must_load(R"({"zero_optimization": {"stage": 3, "cpu_offload": true, "cpu_offload_param": true,
    "cpu_offload_use_pin_memory": true}})",
                             plain, "ds.json");
  BOOST_TEST(origin(l, "zero_optimization.offload_optimizer.device") == "cpu | ds.json:1:51");
  BOOST_TEST(origin(l, "zero_optimization.offload_param.device") == "cpu | ds.json:1:78");
  BOOST_TEST(render(l.warnings) ==
             "ds.json:1:36: warning: zero_optimization.cpu_offload: deprecated, write offload_optimizer: {device: "
             "cpu}\n"
             "ds.json:1:57: warning: zero_optimization.cpu_offload_param: deprecated, write offload_param: {device: "
             "cpu}\n"
             "ds.json:2:5: warning: zero_optimization.cpu_offload_use_pin_memory: deprecated, write "
             "offload_optimizer: {pin_memory: true}\n"
             "ds.json:2:5: warning: zero_optimization.cpu_offload_use_pin_memory: no effect: DeepSpeed drops it "
             "too\n");
  // An old key that is false sets no new key.
  BOOST_TEST(render(must_load(R"({"zero_optimization": {"stage": 3, "cpu_offload": false, "cpu_offload_param": null}})",
                              plain, "ds.json")
                        .warnings) ==
             "ds.json:1:36: warning: zero_optimization.cpu_offload: deprecated, remove it\n"
             "ds.json:1:58: warning: zero_optimization.cpu_offload_param: deprecated, remove it\n");
  BOOST_TEST(errors_of(R"({"zero_optimization": {"stage": 2, "cpu_offload": true, "offload_optimizer": {}}})", plain)
                 .find("cannot be combined with offload_optimizer: remove one of the two") != std::string::npos);
  const loaded job = zero("stage: 2, cpu_offload: true");
  BOOST_TEST((job.config.zero_optimization.offload_optimizer.device == offload_device::cpu));
  BOOST_TEST(must_load(effective_yaml(job)).warnings.empty());
}

BOOST_AUTO_TEST_CASE(settings_that_deepspeed_ignores_in_its_files_are_a_warning) {
  const std::string below_3 = R"({"zero_optimization": {"stage": 2, "offload_param": {"device": "cpu"}}})";
  const loaded l = must_load(below_3, plain, "ds.json");
  BOOST_TEST(render(l.warnings) ==
             "ds.json:1:64: warning: zero_optimization.offload_param.device: no effect: only stage 3 has parameters "
             "to offload\n");
  BOOST_TEST((l.config.zero_optimization.offload_param.device == offload_device::none));
  const loaded stored = must_load(R"({"activation_checkpointing": {"cpu_checkpointing": true}})", plain, "ds.json");
  BOOST_TEST(render(stored.warnings) ==
             "ds.json:1:52: warning: activation_checkpointing.cpu_checkpointing: no effect: "
             "activation_checkpointing.enabled is false\n");
  BOOST_TEST((stored.config.offload_activations == offload_device::none));
  const loaded muon = must_load(R"({"optimizer": {"type": "Muon"}, "zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/disk"}}})",
                                plain, "ds.json");
  BOOST_TEST(render(muon.warnings).find("got muon, which needs whole parameters") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(clipping_keeps_updates_behind_the_norm) {
  const std::string text = smallest_with("stage: 3", "stage: 3, offload_optimizer: {device: cpu, super_offload: true}");
  BOOST_TEST(warnings_of(text) ==
             "j.yaml:8:79: warning: zero_optimization.offload_optimizer.super_offload: updates wait for the gradient "
             "norm, because gradient_clipping is 1; set it to 0, or set cluster.early_updates: true, to let them begin "
             "during backward\n");
  BOOST_TEST(!must_load(text).config.zero_optimization.offload_optimizer.speculates);
  const loaded ahead = must_load(text + "gradient_clipping: 0\n");
  BOOST_TEST(ahead.warnings.empty());
  BOOST_TEST(ahead.config.zero_optimization.offload_optimizer.speculates);
  const loaded swapped = zero(
      "stage: 3, offload_optimizer: {device: cpu, super_offload: true}, offload_param: {device: nvme, "
      "nvme_path: a}",
      "gradient_clipping: 0\n");
  BOOST_TEST(swapped.config.zero_optimization.offload_optimizer.speculates);
  const loaded skipping = zero(
      "stage: 3, offload_optimizer: {device: cpu, super_offload: true}, offload_param: {device: nvme, "
      "nvme_path: a}",
      "gradient_clipping: 0\nfp16: {enabled: true}\n");
  BOOST_TEST(!skipping.config.zero_optimization.offload_optimizer.speculates);
  BOOST_TEST(render(skipping.warnings).find("because offload_param.device is nvme") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(states_in_files_are_updated_ahead_if_no_step_is_skipped) {
  const auto ahead = [](const std::string& more) {
    return zero("stage: 3, offload_optimizer: {device: nvme, nvme_path: a}", more)
        .config.zero_optimization.offload_optimizer.speculates;
  };
  BOOST_TEST(ahead("gradient_clipping: 0\n"));
  BOOST_TEST(ahead("gradient_clipping: 0\nbf16: {enabled: true, check_grad_overflow: false}\n"));
  BOOST_TEST(!ahead(""));
  BOOST_TEST(!ahead("gradient_clipping: 0\nfp16: {enabled: true}\n"));
  BOOST_TEST(!ahead("gradient_clipping: 0\nbf16: {enabled: true}\n"));
}

BOOST_AUTO_TEST_CASE(early_updates_are_the_runs_own_choice) {
  const auto ahead = [](const std::string& zero_section, const std::string& more) {
    const loaded l = zero(zero_section, more);
    BOOST_TEST(l.warnings.empty());
    return l.config.zero_optimization.offload_optimizer.speculates;
  };
  const std::string yes = "cluster: {early_updates: true}\n", no = "cluster: {early_updates: false}\n";
  const std::string super = "stage: 3, offload_optimizer: {device: cpu, super_offload: true}";
  const std::string files = "stage: 2, offload_optimizer: {device: nvme, nvme_path: a}";
  for (const char* stage : {"stage: 0", "stage: 1", "stage: 2", "stage: 3"}) {
    BOOST_TEST_INFO_SCOPE(stage);
    BOOST_TEST(!ahead(stage, ""));
    BOOST_TEST(ahead(stage, yes));
    BOOST_TEST(ahead(stage, yes + "fp16: {enabled: true}\n"));
    BOOST_TEST(!ahead(stage, no));
  }
  BOOST_TEST(ahead(super, yes));
  BOOST_TEST(!ahead(super, no));
  BOOST_TEST(!ahead(super, no + "gradient_clipping: 0\n"));
  BOOST_TEST(ahead(files, yes + "gradient_clipping: 0\n"));
  BOOST_TEST(!ahead(files, no + "gradient_clipping: 0\n"));
  const loaded first = zero("stage: 1", yes), open = zero("stage: 1");
  BOOST_TEST((must_load(effective_yaml(first)).config.early_updates == early_choice::always));
  BOOST_TEST((must_load(effective_yaml(open)).config.early_updates == early_choice::automatic));
}

BOOST_AUTO_TEST_CASE(explain_says_which_keys_have_no_effect) {
  const loaded none = must_load(smallest);
  BOOST_TEST(effect_in(none, "zero_optimization.offload_optimizer.device") == "acts: ");
  BOOST_TEST(effect_in(none, "zero_optimization.offload_optimizer.ratio") == "no_effect: device is none");
  BOOST_TEST(effect_in(none, "zero_optimization.zenflow.topk_ratio") == "no_effect: there is no section zenflow");
  BOOST_TEST(effect_in(none, "aio.queue_depth") == "no_effect: nothing is swapped");
  BOOST_TEST(effect_in(none, "cluster.swap_checksums") == "no_effect: nothing is swapped");
  BOOST_TEST(effect_in(none, "cluster.offload_activations_units") == "no_effect: offload_activations is none");
  const loaded cpu = zero("stage: 2, offload_optimizer: {device: cpu}");
  BOOST_TEST(effect_in(cpu, "zero_optimization.offload_optimizer.super_offload") == "acts: ");
  BOOST_TEST(effect_in(cpu, "zero_optimization.offload_optimizer.buffer_count") == "no_effect: device is cpu");
  BOOST_TEST(effect_in(cpu, "zero_optimization.offload_param.device") ==
             "no_effect: only stage 3 has parameters to offload");
  const loaded nvme = zero("stage: 3, offload_optimizer: {device: nvme, nvme_path: /disk}");
  BOOST_TEST(effect_in(nvme, "aio.queue_depth") == "acts: ");
  BOOST_TEST(effect_in(nvme, "zero_optimization.offload_optimizer.pipeline_read") == "acts: ");
  BOOST_TEST(effect_in(nvme, "zero_optimization.offload_optimizer.fast_init").starts_with("no_effect: first values"));
  BOOST_TEST(effect_in(nvme, "aio.use_gds") ==
             "no_effect: nothing here uses CUDA's cuFile: files move through host memory");
  for (const effective_value& v : nvme.values)
    if (v.key.starts_with("zero_optimization.offload_") || v.key.starts_with("aio.") || v.key.starts_with("cluster."))
      BOOST_TEST((v.row->support.acts != effect::when_there), v.key);
}

BOOST_AUTO_TEST_CASE(output_of_deepspeeds_tuner_can_be_pasted) {
  const loaded l = must_load(R"({"aio": {"single_submit": "true", "overlap_events": "false", "num_threads": 4,
    "queue_depth": 32, "block_size": 1048576}})",
                             plain, "ds.json");
  BOOST_TEST((l.config.aio.single_submit && !l.config.aio.overlap_events));
  BOOST_TEST((l.config.aio.intra_op_parallelism == 4U && l.config.aio.intra_op_parallelism_given));
}

BOOST_AUTO_TEST_CASE(accelerate_names_devices_too) {
  const loaded l = must_load(
      "distributed_type: DEEPSPEED\nnum_processes: 2\ndeepspeed_config:\n  zero_stage: 3\n"
      "  offload_optimizer_device: nvme\n  offload_optimizer_nvme_path: /disk\n  offload_param_device: cpu\n",
      plain, "default_config.yaml");
  BOOST_TEST((l.config.zero_optimization.offload_param.device == offload_device::cpu));
  BOOST_TEST(l.config.swap_folder() == "/disk");
}

BOOST_AUTO_TEST_CASE(the_limits_are_those_of_the_files_they_are_for) {
  BOOST_TEST(aio_queue_depth_max == troupe::storage::queue_depth_max);
  BOOST_TEST(aio_threads_max == troupe::storage::queue_threads_max);
  BOOST_TEST(aio_block_size_max == troupe::storage::registered_piece_bytes);
}

BOOST_AUTO_TEST_SUITE_END()
