// Rows of the key table for DeepSpeed's keys of tensor and expert parallelism, graph compilation and generation.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using degrees = deepspeed_degrees;

/// Returns the accessors of `partition_config`, which keep the mapping as text. parallel_rules.cpp parses the mapping
/// itself, because its nodes have the positions that errors name.
hand_made partition_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.tensor_parallel.partition.text = as_yaml(v);
            return std::nullopt;
          },
          [](const job& c) {
            const std::string& text = c.tensor_parallel.partition.text;
            return text.empty() ? "none" : text;
          }};
}

/// Names of passes: DeepSpeed's passes, the passes of plan::option_passes, and the passes over a host's units.
const std::vector<std::string_view> pass_names = {"z1",
                                                  "z3",
                                                  "autosp",
                                                  "autotp",
                                                  "prefetch",
                                                  "selective_gather",
                                                  "recompute",
                                                  "offload_activation",
                                                  "offload_optimizer",
                                                  "fuse_buckets",
                                                  "overlap_exchanges",
                                                  "split_exchanges",
                                                  "fuse_activation"};

/// Returns the accessors of the key `passes`: an empty list means that no pass is used, a missing value that all passes
/// are.
hand_made passes_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.compile.passes.clear();
            if (v.is_scalar()) c.compile.passes.push_back(v.text);
            for (const node_ptr& item : v.items) c.compile.passes.push_back(item->text);
            c.compile.passes_given = true;
            return std::nullopt;
          },
          [](const job& c) {
            return c.compile.passes_given ? fmt::format("[{}]", fmt::join(c.compile.passes, ", ")) : "none";
          }};
}

constexpr auto entries = [](job_config & c) -> auto& { return c.compile.schedule; };

hand_made vocabulary_field() {
  return {[](job& c, const node& v) -> std::optional<std::string> {
            c.tensor_parallel.vocabulary_head = boolean_in(v);
            return std::nullopt;
          },
          [](const job& c) -> std::string {
            const auto& given = c.tensor_parallel.vocabulary_head;
            return !given ? "none" : *given ? "true" : "false";
          }};
}

void add_compile(key_rows& t) {
  using compile = compile_section;
  section_rows key(t, "compile",
                   "Graph compilation (DeepCompile): here, passes over the step plan; `auto` turns it on.");
  key.itself().switched_by("compile.deepcompile");
  t.row("compile.deepcompile", boolean)
      .by_default("false")
      .into<&job::compile, &compile::enabled>()
      .means("Change the step plan by passes; false: the plan is as the other keys have it.");
  t.row("compile.passes", texts)
      .one_of(pass_names)
      .by_hand(passes_field())
      .means(
          "Which; none: all of ours but split_exchanges, each as far as it helps. DeepSpeed's z1, z3, autosp and "
          "autotp "
          "are in every plan.");
  t.row("compile.schedule[]", section)
      .list_of(
          entries, +[](const job& c) { return c.compile.schedule.size(); })
      .means("Other passes from a step on, in place of passes; each entry begins with the plan of the other keys.");
  t.row("compile.schedule[].step", integer)
      .needed()
      .at_least(0)
      .into_item<&compile_entry::step>(entries)
      .means("So many steps are done before.");
  t.row("compile.schedule[].passes", texts)
      .needed()
      .one_of(pass_names)
      .into_item<&compile_entry::passes>(entries)
      .means("As compile.passes; []: none.");
  t.row("compile.memory_budget", bytes)
      .by_default("0")
      .into<&job::compile, &compile::memory_budget>()
      .means(
          "All that the ranks of a process may need together, activations too; passes are chosen so that the step "
          "fits. 0: no limit.");
  key("profile_steps", integer, "none", "Never accepted: no steps are measured for a choice of passes.")
      .refused("passes are chosen once, by predicted times, and no steps are measured or tried; remove the key");
  key("autoep_non_moe", boolean, "false", "Compile what stands around expert layers.")
      .ignored("nothing is compiled at run time");
  key("free_activation", boolean, "false", "Free large activations right after their last use.")
      .ignored("activations always end with their last use");
  key("free_activation_threshold", integer, "10485760", "From this size on.")
      .at_least(0)
      .ignored("activations always end with their last use");
  t.row("compile.offload_activation", boolean)
      .by_default("false")
      .into<&job::compile, &compile::offload_activation>()
      .means("Inputs of recomputed units wait on the host: cluster.offload_activations cpu.");
  key("offload_activation_pin_memory", boolean, "true", "Lock that memory.")
      .ignored("a device's windows are pinned as far as the system permits");
  t.row("compile.offload_opt_states", boolean)
      .by_default("false")
      .into<&job::compile, &compile::offload_opt_states>()
      .means("Optimizer states are on the host: offload_optimizer.device cpu.");
  t.row("compile.offload_parameters", boolean)
      .by_default("false")
      .into<&job::compile, &compile::offload_parameters>()
      .means("Parameter shards are on the host: offload_param.device cpu.");
  key("double_buffer", boolean, "true", "Two gradient buckets in turn.")
      .ignored("the plan gives every bucket a slot, as many as are needed at a time");
  key("symmetric_memory", boolean, "false", "Gather by copies between peers.")
      .ignored("ranks of one process always copy straight from each other");
  for (const char* name : {"sync_before_reduce", "sync_after_reduce", "sync_before_allgather", "sync_after_allgather"})
    key(name, boolean, "false", "A wait for finding errors.").ignored("a plan has its order proved instead");
  key("keep_int_input_tensors", boolean, "true", "Keep inputs for another profile.")
      .ignored("plans need no traced inputs");
  key("keep_all_input_tensors", boolean, "false", "Keep all inputs for another profile.")
      .ignored("plans need no traced inputs");
  key("debug_log", boolean, "false", "Write graphs down.").ignored("`troupe plan` shows them");
  // `enabled` and `disable` are keys of older versions of DeepSpeed, which compiled with torch.compile.
  for (const char* name : {"enabled", "disable"})
    key(name, boolean, "false", "Of older versions.").ignored("nothing is compiled at run time");
  key("backend", text, "inductor", "Of older versions.").ignored("nothing is compiled at run time");
  key("kwargs", object, "none", "Of older versions.").ignored("nothing is compiled at run time");
}

void add_tensor(key_rows& t) {
  section_rows key(t, "tensor_parallel", "Options of tensor parallelism.");
  t.row("tensor_parallel.autotp_size", integer)
      .by_default("0")
      .at_least(0)
      .at_most(4096)
      .into<&job::degrees, &degrees::autotp_size>()
      .means(
          "parallel.tensor, and a host's own modules without a policy are cut as the order of their layers has it; "
          "0: not said here.");
  key("dtype", dtype, "fp16", "The model's type.")
      .one_of({"fp16", "bf16", "fp32"})
      .ignored("the fp16 and bf16 sections set it");
  t.row("tensor_parallel.tp_overlap_comm", boolean)
      .by_default("false")
      .into<&job::parallel, &parallel_section::overlap_comm>()
      .means("Exchange the gradient of a segment's input beside the weight part of its backward.");
  t.row("tensor_parallel.exchange_pieces", integer)
      .by_default("1")
      .into<&job::parallel, &parallel_section::exchange_pieces>()
      .at_least(1)
      .at_most(64)
      .means(
          "Pieces of rows that the product which ends a segment is worked in, each exchanged beside the next one's.");
  key("vocab_parallel_lm_head", boolean, "none",
      "Cut the head by the vocabulary, or leave it whole; of ours the embedding with it. None: as partition_config or "
      "the family has it.")
      .by_hand(vocabulary_field());
  key("vocab_parallel_ce_backend", text, "torch", "Its loss.").one_of({"torch", "liger"}).ignored("there is one loss");
  key("injection_policy_tuple", texts, "none",
      "Ends of the names of a host's linear layers whose inputs are cut; the outputs of the others in their units are.")
      .into<&job::tensor_parallel, &tensor_parallel_section::rows>();
  t.row("tensor_parallel.partition_config", object)
      .by_hand(partition_field())
      .means("Which layers are cut, and how, by their names; what nothing names is whole. None: as the family has it.");
  t.row("tensor_parallel.preset_model", text)
      .one_of({"llama", "bloom", "chatglm", "mixtral", "deepseek_v2", "qwen2", "phi3"})
      .into<&job::tensor_parallel, &tensor_parallel_section::preset_model>()
      .means("The same as DeepSpeed has it for a family of models; behind layer_specs of partition_config.");
  key("keep_module_on_host", boolean, "false", "Load weights on the host first.")
      .ignored("each rank reads just its part");
  key("replace_with_kernel_inject", boolean, "false",
      "Layer norms of ours where a host's modules call them without their type: in a Sequential, and as units.")
      .also("kernel_inject")
      .into<&job::tensor_parallel, &tensor_parallel_section::own_layers>();
  t.row("tensor_parallel.tensor_parallel", section).also("tp").means("Degrees of tensor parallelism.");
  const auto inner = [&](const char* name, value_type type, const char* by_default, const char* meaning) -> key_info& {
    return t.row(std::string("tensor_parallel.tensor_parallel.") + name, type).by_default(by_default).means(meaning);
  };
  t.row("tensor_parallel.tensor_parallel.tp_size", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::degrees, &degrees::tp_size>()
      .means("parallel.tensor; 1: not said here.");
  t.row("tensor_parallel.tensor_parallel.tp_grain_size", integer)
      .by_default("1")
      .at_least(1)
      .into<&job::tensor_parallel, &tensor_parallel_section::grain>()
      .means("Elements of an MLP's inner width that stay together on a rank; the last one has what is left.");
  inner("mpu", any, "none", "An object of the user's program.").ignored("the section parallel sets it");
  inner("tp_group", any, "none", "An object of the user's program.").ignored("the section parallel sets it");
}

void add_experts(key_rows& t) {
  section_rows key(t, "expert_parallel", "Expert parallelism by configuration (AutoEP).", capability::experts);
  key.off("Use it.");
  key("autoep_size", integer, "1", "Ranks that share the experts of a layer.").at_least(1);
  key("expert_tensor_parallel_size", integer, "1", "Ranks that share each expert.").at_least(1);
  for (const char* name : {"validate_folding_routing", "async_split_plan", "disable_triton_grouped_mm"})
    key(name, boolean, "false", "How expert layers run.");
  key("use_grouped_mm", boolean, "true", "How expert layers run.");
  for (const char* name :
       {"preset_model", "moe_layer_pattern", "expert_pattern", "router_pattern", "expert_w1", "expert_w2", "expert_w3",
        "num_experts_attr", "top_k_attr", "shared_experts_pattern", "shared_experts_gate_pattern", "expert_activation"})
    key(name, text, "none", "Where the experts of a model are.");
  for (const char* name : {"route_norm", "has_shared_experts"}) key(name, boolean, "none", "How tokens are routed.");
  key("route_scale", number, "1.0", "How tokens are routed.");
  key("routed_scaling_factor", number, "auto", "How tokens are routed.");
  key("load_balance_coeff", number, "none", "DeepSpeed accepts nothing here.");
  key("score_apply", text, "auto", "How tokens are routed.").one_of({"pre", "post"});
  key("score_func", text, "auto", "How tokens are routed.").one_of({"softmax", "sigmoid"});
  key("top_k", integer, "auto", "Experts of a token.").at_least(1);
  key("combine_impl", text, "auto", "How results are put together.")
      .one_of({"weighted_sum", "fused_weighted_sum", "legacy_bmm"});
  key("row_weighting_impl", text, "auto", "How results are weighted.").one_of({"eager", "fused"});
  key("gate_up_impl", text, "separate", "One matrix or two.").one_of({"separate", "fused"});
  key("comm_backend", text, "comm", "What moves tokens.").one_of({"comm", "deepep"});
  key("comm_num_sm", integer, "12", "Of a GPU, for moving tokens.").at_least(0);
  key("comm_qp_margin", integer, "4", "Of a network card, for moving tokens.").at_least(0);
  key("comm_max_tokens_per_rank", integer, "0", "Tokens at a time; 0: any.").at_least(0);
  key("num_expert_groups", integer, "none", "Groups of experts.").at_least(1);
  key("num_limited_groups", integer, "none", "Groups a token may choose from.").at_least(1);
}

}  // namespace

void add_parallel_engine_keys(key_rows& t) {
  add_tensor(t);
  add_experts(t);
  add_compile(t);
  t.row("use_data_before_expert_parallelism", boolean)
      .by_default("false")
      .when(capability::experts)
      .means("Which ranks are neighbours.");
  t.row("sequence_parallel_size", integer)
      .by_default("1")
      .at_least(1)
      .at_most(4096)
      .into<&job::degrees, &degrees::sequence_parallel_size>()
      .means("parallel.sequence; 1: not said here.");
  section_rows sequence(t, "sequence_parallel", "Sequence parallelism by configuration.");
  sequence.itself().switched_by("sequence_parallel.enabled");
  sequence("enabled", boolean, "false", "Take the size from here.").into<&job::degrees, &degrees::sequence_enabled>();
  sequence("size", integer, "1", "parallel.sequence, where it is enabled.")
      .at_least(1)
      .at_most(4096)
      .into<&job::degrees, &degrees::sequence_size>();

  const auto no_generation = "a run trains; it generates only the sample at its end";
  section_rows hybrid(t, "hybrid_engine", "Training and generation in turn.");
  hybrid("enabled", boolean, "false", "Do so.").ignored(no_generation);
  hybrid("max_out_tokens", integer, "512", "Tokens of one answer.").at_least(1).ignored(no_generation);
  hybrid("inference_tp_size", integer, "1", "Ranks that share a matrix meanwhile.").at_least(1).ignored(no_generation);
  hybrid("release_inference_cache", boolean, "false", "Give memory back in between.").ignored(no_generation);
  hybrid("pin_parameters", boolean, "true", "Lock host memory.").ignored(no_generation);
  hybrid("tp_gather_partition_size", integer, "8", "Layers gathered at a time.").at_least(1).ignored(no_generation);
  hybrid("enable_cuda_graph", boolean, "false", "Replay recorded work.").ignored(no_generation);
}

}  // namespace troupe::config
