// DeepSpeed's keys that have no effect in Troupe and belong to no section of Troupe's. They are listed so that they are
// not reported as unknown: each row names the capability that the key waits for, or the reason why it has no effect.
// Keys that would change results are refused. A key with an effect is a row in the file of its section (key_table.hpp).
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;

void add_amp(key_rows& t) {
  const auto apex = "Apex is gone; write fp16: {enabled: true} or bf16: {enabled: true}";
  section_rows key(t, "amp", "NVIDIA Apex mixed precision, which DeepSpeed has dropped.");
  key.off("Use it.").ignored(apex);
  key("opt_level", text, "O1", "How much is in fp16.").one_of({"O0", "O1", "O2", "O3"}).ignored(apex);
  key("loss_scale", any, "dynamic", "A fixed loss scale.").ignored(apex);
  for (const char* name : {"min_loss_scale", "max_loss_scale", "verbosity", "num_losses"})
    key(name, number, "none", "A number of Apex.").ignored(apex);
  for (const char* name :
       {"master_weights", "keep_batchnorm_fp32", "patch_torch_functions", "cast_model_type", "cast_model_outputs"})
    key(name, any, "none", "An option of Apex.").ignored(apex);

  section_rows autocast(t, "torch_autocast", "Mixed precision chosen per operation.", capability::autocast);
  autocast.off("Use it.");
  autocast("dtype", dtype, "none", "The 16-bit type.").one_of({"fp16", "bf16"});
  autocast("lower_precision_safe_modules", texts, "none", "Modules whose gradients are exchanged in it.");
}

void add_sparse_attention(key_rows& t) {
  const auto models = "models with their own attention asked for it; DeepSpeed has dropped it";
  section_rows key(t, "sparse_attention", "Block-sparse attention.");
  key.itself().where_it_stands().ignored(models);
  key("mode", text, "fixed", "The pattern.")
      .one_of({"dense", "fixed", "variable", "bigbird", "bslongformer", "local_sliding_window"})
      .ignored(models);
  key("attention", text, "bidirectional", "What a token sees.")
      .one_of({"bidirectional", "unidirectional"})
      .ignored(models);
  for (const auto& [name, by_default] :
       std::initializer_list<std::pair<const char*, const char*>>{{"block", "16"},
                                                                  {"num_local_blocks", "4"},
                                                                  {"num_global_blocks", "1"},
                                                                  {"num_different_global_patterns", "1"},
                                                                  {"num_random_blocks", "0"},
                                                                  {"num_sliding_window_blocks", "3"}})
    key(name, integer, by_default, "A size of the pattern.").at_least(0).ignored(models);
  for (const char* name : {"different_layout_per_head", "horizontal_global_attention"})
    key(name, boolean, "false", "A choice of the pattern.").ignored(models);
  key("local_window_blocks", integers, "[4]", "Sizes of windows.").at_least(0).ignored(models);
  key("global_block_indices", integers, "[0]", "Blocks that all see.").at_least(0).ignored(models);
  key("global_block_end_indices", integers, "none", "Where they end.").at_least(0).ignored(models);
}

}  // namespace

void add_deepspeed_keys(key_rows& t) {
  const auto key = [&](const char* name, value_type type, const char* by_default) -> key_info& {
    return t.row(name, type).by_default(by_default);
  };
  key("zero_allow_untested_optimizer", boolean, "false")
      .ignored("every optimizer here works with every stage")
      .means("Accept any optimizer with ZeRO.");
  key("zero_force_ds_cpu_optimizer", boolean, "true")
      .ignored("every optimizer here runs on the CPU")
      .means("Insist on the CPU optimizer with offload.");
  key("sparse_gradients", boolean, "false")
      .ignored("gradients of embeddings are dense; DeepSpeed has dropped it")
      .means("Send embedding gradients as indices and values.");
  key("disable_allgather", boolean, "false").ignored("no effect in DeepSpeed either").means("Gather by broadcasts.");
  key("dataloader_drop_last", boolean, "false")
      .ignored("every global batch is whole")
      .means("Drop the last partial batch.");
  key("vocabulary_size", integer, "none")
      .at_least(1)
      .ignored("the model determines it")
      .means("Warn unless a multiple of 8.");
  key("fp32_allreduce", boolean, "false")
      .also("allreduce_always_fp32", true)
      .deprecated("communication_data_type: fp32")
      .just("false")
      .ignored("DeepSpeed reads communication_data_type instead")
      .means("Exchange gradients in fp32.");
  key("disable_compile", boolean, "false")
      .ignored("nothing is compiled at run time")
      .means("Leave the model as it is.");
  key("disable_python_gc", boolean, "false").ignored("there is no Python").means("No garbage collection in a step.");
  key("graph_harvesting", boolean, "false").ignored("DeepSpeed has dropped it").means("Replay recorded CUDA graphs.");
  add_amp(t);
  add_sparse_attention(t);
}

}  // namespace troupe::config
