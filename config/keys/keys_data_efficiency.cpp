// DeepSpeed's keys that choose the samples and tokens for each step: curricula, dynamic batches, token and layer drop.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;

/// Adds the keys of a difficulty that rises over steps. A metric of `data_efficiency` and the older section
/// `curriculum_learning` both have these keys.
void add_schedule(key_rows& t, section_rows& key, const std::string& name) {
  key("min_difficulty", integer, "none", "Difficulty at the start.").at_least(0);
  key("max_difficulty", integer, "none", "Difficulty in the end.").at_least(0);
  key("schedule_type", text, "none", "How it grows.")
      .one_of({"fixed_linear", "fixed_root", "fixed_discrete", "custom"});
  section_rows schedule(t, name + ".schedule_config", "The growth's numbers.", capability::curriculum);
  schedule("total_curriculum_step", integer, "none", "The step that reaches the end.").at_least(1);
  schedule("difficulty_step", integer, "none", "Difficulties are multiples of this.").at_least(1);
  schedule("root_degree", number, "none", "fixed_root: 2 is a square root.").above(0);
  schedule("difficulty", integers, "none", "fixed_discrete: the difficulties.").at_least(0);
  schedule("max_step", integers, "none", "fixed_discrete: the last step of each but the last.").at_least(0);
}

void add_sampling(key_rows& t) {
  const std::string name = "data_efficiency.data_sampling";
  section_rows key(t, name, "Which samples, in which order.", capability::curriculum);
  key.off("Choose them.");
  key("num_epochs", integer, "1000", "Epochs at most.").at_least(1);
  key("num_workers", integer, "0", "Processes that load.").at_least(0).ignored("one loader keeps batches ready");
  key("pin_memory", boolean, "false", "Lock the memory of batches.");
  section_rows learning(t, name + ".curriculum_learning", "Easy samples first.", capability::curriculum);
  learning.off("Do so.");
  learning("data_cluster_path", path, "none", "Where clusters of samples are written.");
  section_rows metrics(t, name + ".curriculum_learning.curriculum_metrics", "What difficulty is, by a name each.");
  const std::string one = name + ".curriculum_learning.curriculum_metrics.*";
  section_rows metric(t, one, "One measure of difficulty.", capability::curriculum);
  metric("index_to_sample_path", path, "none", "Samples by difficulty.");
  metric("index_to_metric_path", path, "none", "Difficulties by sample.");
  metric("difficulty_type", text, "none", "A value, or a share of samples.").one_of({"value", "percentile"});
  metric("clustering_type", text, "none", "How samples are grouped.").one_of({"single_cluster", "schedule_based"});
  add_schedule(t, metric, one);
  section_rows batching(t, name + ".dynamic_batching", "Batches of about as many tokens.", capability::curriculum);
  batching.off("Make them so.");
  batching("metrics_path", path, "none", "Lengths of samples.");
  batching("lr_scaling_method", text, "linear", "Learning rate by batch size.").one_of({"linear", "sqrt", "none"});
  batching("min_batch_size", integer, "1", "Samples at least.").at_least(1);
  batching("max_batch_size", integer, "none", "Samples at most.").at_least(1);
  batching("sequence_picking_order", text, "dataloader", "Which come together.")
      .one_of({"random", "seqlen", "dataloader"});
  batching("max_tokens", integer, "none", "Tokens of a batch.").at_least(1);
  batching("verbose", boolean, "false", "Log it.");
}

void add_routing(key_rows& t) {
  const std::string name = "data_efficiency.data_routing";
  section_rows key(t, name, "Which tokens go through which layers.", capability::layer_drop);
  key.off("Leave some out.");
  section_rows ltd(t, name + ".random_ltd", "Middle layers see a random part of each sequence.",
                   capability::layer_drop);
  ltd.off("Do so.");
  ltd("total_layer_num", integer, "none", "Layers of the model.").at_least(1);
  ltd("random_ltd_layer_num", integer, "none", "Layers that see a part.").at_least(0);
  ltd("random_ltd_layer_id", integers, "none", "Which.").at_least(0);
  ltd("model_mask_name", text, "none", "The mask's name in a user's model.").ignored("units know their own inputs");
  ltd("model_type", text, "none", "encoder or decoder.").one_of({"encoder", "decoder"});
  ltd("micro_batch_size", integer, "none", "Samples of one forward.")
      .at_least(1)
      .ignored("train_micro_batch_size_per_gpu sets it");
  ltd("global_batch_size", integer, "none", "Samples of one step.").at_least(1).ignored("train_batch_size sets it");
  ltd("hidden_state_order", text, "none", "The order of a hidden state's axes.").ignored("units know their own inputs");
  section_rows schedule(t, name + ".random_ltd.random_ltd_schedule", "How the part grows.", capability::layer_drop);
  schedule("min_value", integer, "none", "Tokens at the start.").at_least(1);
  schedule("max_value", integer, "none", "Tokens in the end.").at_least(1);
  schedule("schedule_type", text, "none", "How it grows.").one_of({"fixed_linear"});
  section_rows config(t, name + ".random_ltd.random_ltd_schedule.schedule_config", "The growth's numbers.",
                      capability::layer_drop);
  config("require_steps", integer, "none", "Steps until it is whole.").at_least(1);
  config("seq_per_step", integer, "none", "Tokens that are added at a time.").at_least(1);
  section_rows lr(t, name + ".random_ltd.layer_token_lr_schedule", "Learning rate by tokens seen.",
                  capability::layer_drop);
  lr("enabled", boolean, "false", "Do so.").just("false");
  lr("total_layer_tokens", integer, "none", "Tokens times layers in all.").at_least(1);
  lr("warmup_type", text, "none", "The shape of the warm-up.");
  lr("warmup_layer_tokens", integer, "none", "Tokens times layers of the warm-up.").at_least(1);
}

}  // namespace

void add_data_efficiency_keys(key_rows& t) {
  section_rows key(t, "data_efficiency", "Easy samples first, random token dropping.", capability::curriculum);
  key.off("Use it.");
  key("seed", integer, "1234", "Of what is random in it.").at_least(0);
  add_sampling(t);
  add_routing(t);

  section_rows learning(t, "curriculum_learning", "Easy samples first: the older form, which DeepSpeed has dropped.",
                        capability::curriculum);
  learning.off("Do so.");
  learning("curriculum_type", text, "seqlen", "What difficulty is: the length of a sequence.");
  add_schedule(t, learning, "curriculum_learning");

  section_rows layers(t, "progressive_layer_drop", "Skip layers at random.", capability::layer_drop);
  layers.off("Do so.");
  layers("theta", number, "1.0", "The share of layers kept in the end.").at_least(0).at_most(1);
  layers("gamma", number, "0.001", "How fast it is reached.").at_least(0);
}

}  // namespace troupe::config
