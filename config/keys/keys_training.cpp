// DeepSpeed's keys of batches, of its section `elasticity` and of the order in which gradients are summed, with the
// defaults of DeepSpeed 0.19; and the keys of the loss and of the average of weights.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;

constexpr double most_batch = 1e12;

hand_made sizes_field() {
  return {
      [](job& c, const node& v) -> std::optional<std::string> {
        auto& sizes = c.elasticity.micro_batch_sizes;
        if (v.items.empty() || v.items.size() > elastic_sizes_max)
          return fmt::format("a list of 1 to {} sizes", elastic_sizes_max);
        sizes.clear();
        for (const node_ptr& one : v.items) sizes.push_back(integer_in(*one)->magnitude);
        return std::nullopt;
      },
      [](const job& c) -> std::string { return fmt::format("[{}]", fmt::join(c.elasticity.micro_batch_sizes, ", ")); }};
}

void add_elasticity(key_rows& t) {
  using elastic = elasticity_section;
  constexpr auto section_of = &job::elasticity;
  constexpr auto most = static_cast<double>(elastic_batch_max);
  section_rows key(t, "elasticity", "Batches that can be cut for many data degrees; DeepSpeed has dropped it.");
  key.itself().switched_by("elasticity.enabled");
  key("enabled", boolean, "false",
      "The three batch sizes are those by which the most degrees train on the same batch; other degrees are refused.")
      .into<section_of, &elastic::enabled>();
  key("max_train_batch_size", integer, "2000", "The largest global batch.")
      .at_least(1)
      .at_most(most)
      .into<section_of, &elastic::max_train_batch_size>();
  key("micro_batch_sizes", integers, "[2, 4, 6]", "Micro-batches to choose from, at most 64 of them.")
      .at_least(1)
      .at_most(most)
      .by_hand(sizes_field());
  key("min_gpus", integer, "1", "Ranks at least.").at_least(1).at_most(most).into<section_of, &elastic::min_gpus>();
  key("max_gpus", integer, "10000", "Ranks at most.").at_least(1).at_most(most).into<section_of, &elastic::max_gpus>();
  key("min_time", integer, "0", "Minutes until the next change.")
      .at_least(0)
      .ignored("degrees change when a process is lost or comes back");
  key("version", number, "0.2", "The rule's version: 0.1 counts ranks, 0.2 nodes.")
      .at_least(0.1)
      .at_most(0.2)
      .into<section_of, &elastic::version>();
  key("prefer_larger_batch", boolean, "true", "Of batches that suit as many degrees the largest, not the smallest.")
      .also("prefer_large_batch")
      .into<section_of, &elastic::prefer_larger_batch>();
  key("ignore_non_elastic_batch_info", boolean, "false", "Batch sizes given elsewhere have no effect; else refused.")
      .into<section_of, &elastic::ignore_non_elastic_batch_info>();
  key("model_parallel_size", integer, "1", "Version 0.2: ranks that share a model, parallel.pipeline x tensor.")
      .at_least(1)
      .at_most(most)
      .into<section_of, &elastic::model_parallel_size>();
  key("num_gpus_per_node", integer, "1", "Version 0.2: ranks of one node, whole ones of which a job has.")
      .at_least(1)
      .at_most(most)
      .into<section_of, &elastic::num_gpus_per_node>();
}

void add_loss(key_rows& t) {
  section_rows key(t, "loss", "The loss of each target in training; evaluations compute the cross-entropy alone.");
  key("label_smoothing", number, "0.0",
      "The part of the wanted probability that all tokens of the vocabulary share, as torch's cross_entropy has it.")
      .at_least(0)
      .at_most(1)
      .into<&job::loss, &loss_section::label_smoothing>();
  key("z_loss", number, "0.0",
      "Adds this times the squared logarithm of the softmax's sum (PaLM takes 1e-4), which keeps logits small.")
      .at_least(0)
      .into<&job::loss, &loss_section::z_loss>();
  key("logit_soft_cap", number, "0.0",
      "Limit that logits approach, by tanh, in a family whose config.json has none; evaluations and generated text "
      "have it, too, and exported models do not. 0: none.")
      .at_least(0)
      .below(1e6)
      .into<&job::loss, &loss_section::logit_soft_cap>();
}

void add_average(key_rows& t) {
  constexpr double most_updates = 1e15;
  section_rows key(t, "ema",
                   "An exponential moving average of the trained weights, in fp32, saved with the optimizer's states; "
                   "on where the section stands.");
  key("decay", number, "0.999", "The part of the average that a change of it keeps.")
      .at_least(0)
      .below(1)
      .into<&job::ema, &ema_section::decay>()
      .tells<&job::ema, &ema_section::given>();
  key("every", integer, "1", "Updates from one change of the average to the next.")
      .at_least(1)
      .at_most(most_updates)
      .into<&job::ema, &ema_section::every>()
      .tells<&job::ema, &ema_section::given>();
  key("start", integer, "0", "Updates up to which the average is the weights.")
      .at_least(0)
      .at_most(most_updates)
      .into<&job::ema, &ema_section::start>()
      .tells<&job::ema, &ema_section::given>();
  key("warmup", boolean, "false", "The n-th change keeps at most (1 + n) / (10 + n) of the average.")
      .into<&job::ema, &ema_section::warmup>()
      .tells<&job::ema, &ema_section::given>();
  key("evaluate", boolean, "false", "Evaluate with the average in place of the weights.")
      .into<&job::ema, &ema_section::evaluate>()
      .tells<&job::ema, &ema_section::given>();
}

}  // namespace

void add_batch_keys(key_rows& t) {
  t.row("train_batch_size", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::train_batch_size>()
      .means(
          "Samples of one optimizer step: micro-batch x accumulation steps x data-parallel ranks. One or two of the "
          "three follow from the others.");
  t.row("train_micro_batch_size_per_gpu", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::train_micro_batch_size_per_gpu>()
      .means("Samples of one forward on one rank.");
  t.row("gradient_accumulation_steps", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::gradient_accumulation_steps>()
      .means("Micro-batches of one optimizer step.");
  t.row("managed_gradient_accumulation", boolean)
      .by_default("true")
      .into<&job::managed_gradient_accumulation>()
      .means(
          "False: a program decides how many micro-batches each of its steps has, at most "
          "`gradient_accumulation_steps`, for which memory is taken.");
  t.row("steps_per_print", integer).at_least(1).into<&job::steps_per_print>().means("Log a line every so many steps.");
  t.row("gradient_clipping", number)
      .by_default("1.0")
      .at_least(0)
      .into<&job::gradient_clipping>()
      .means("The largest global gradient norm; 0: no clipping.");
  t.row("prescale_gradients", boolean)
      .by_default("false")
      .into<&job::prescale_gradients>()
      .means("Divide gradients before they are summed over ranks, not after.");
  t.row("gradient_predivide_factor", number)
      .by_default("1.0")
      .above(0)
      .into<&job::gradient_predivide_factor>()
      .means("Divide by this before the sum over ranks, by the rest after it.");
  t.row("gradient_allreduce_op", text)
      .by_default("mean")
      .one_of({"mean", "sum"})
      .in_any_case()
      .just("mean")
      .ignored("one rule scales gradients, so that every way to shard gives the same bits")
      .means("Gradients are means over the global batch, or sums over ranks.");
  t.row("communication_data_type", dtype)
      .one_of({"fp16", "bf16", "fp32"})
      .into<&job::communication_data_type>()
      .means("The type gradients are exchanged in; none: the parameters'.");
  t.row("seq_parallel_communication_data_type", dtype)
      .by_default("fp32")
      .one_of({"fp16", "bf16", "fp32"})
      .means("The same between sequence-parallel ranks.")
      .ignored("their gradients go with those of data ranks, in communication_data_type");
  add_elasticity(t);
  add_loss(t);
  add_average(t);
}

}  // namespace troupe::config
