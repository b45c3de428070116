// DeepSpeed's keys of batches and of how gradients are summed. Defaults are DeepSpeed 0.19's.
#include "config/capabilities.hpp"
#include "config/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;

constexpr double most_batch = 1e12;

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
      .just("true")
      .needs(capability::host_steps)
      .means("Count micro-batches; false: the host decides when to step.");
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
}

}  // namespace troupe::config
