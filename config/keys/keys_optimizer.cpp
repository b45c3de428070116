// DeepSpeed's keys of the optimizer. The default of a key is the value with which DeepSpeed 0.19 or PyTorch
// constructs the optimizer.
#include <fmt/format.h>

#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using optimizer = optimizer_section;

hand_made betas_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.optimizer.beta1 = *number_in(*v.items[0]);
            c.optimizer.beta2 = *number_in(*v.items[1]);
            return std::nullopt;
          },
          [](const job_config& c) { return fmt::format("[{}, {}]", c.optimizer.beta1, c.optimizer.beta2); }};
}

class parameter_rows {
 public:
  explicit parameter_rows(key_rows& t) : t_(t) {}
  key_info& operator()(const char* name, value_type type, const char* by_default, const char* meaning) {
    return t_.row(std::string("optimizer.params.") + name, type).by_default(by_default).means(meaning);
  }

 private:
  key_rows& t_;
};

/// Adds the keys of the learning rate, of Adam's moments and of weight decay.
void add_moment_keys(parameter_rows key) {
  key("lr", number, "0.001", "Learning rate, where no scheduler says otherwise.")
      .at_least(0)
      .by_default_of("adagrad", "0.01")
      .by_default_of("muon", "0.02")
      .into<&job::optimizer, &optimizer::lr>();
  key("betas", number_list, "[0.9, 0.999]", "How slowly the two moments forget.")
      .one_of({"beta1", "beta2"})
      .at_least(0)
      .below(1)
      .of({"adam", "adamw", "lion", "lamb", "muon"})
      .by_default_of("muon", "[0.9, 0.95]")
      .by_hand(betas_field());
  key("eps", number, "1e-08", "Added to the root of the second moment.")
      .at_least(0)
      .of({"adam", "adamw", "adagrad", "lamb", "muon"})
      .by_default_of("adagrad", "1e-10")
      .by_default_of("muon", "1e-10")
      .into<&job::optimizer, &optimizer::eps>();
  key("weight_decay", number, "0.0", "Pull of parameters towards zero.")
      .at_least(0)
      .into<&job::optimizer, &optimizer::weight_decay>();
  key("adam_w_mode", boolean, "true", "Weight decay beside the gradient (AdamW), not inside it (L2).")
      .of({"adam", "adamw", "muon"})
      .into<&job::optimizer, &optimizer::adam_w_mode>();
  key("bias_correction", boolean, "true", "Correct the moments for their start at zero.")
      .of({"adam", "adamw", "lamb"})
      .into<&job::optimizer, &optimizer::bias_correction>();
  key("torch_adam", boolean, "false", "Use PyTorch's own Adam.")
      .of({"adam", "adamw", "muon"})
      .ignored("there is one Adam kernel");
  key("fp32_optimizer_states", boolean, "true", "Keep moments in fp32.")
      .of({"adam", "adamw", "adagrad", "lion", "muon"})
      .just("true")
      .needs(capability::master_types);
  key("amsgrad", boolean, "false", "Keep the largest second moment.")
      .of({"adam", "adamw", "adagrad", "lamb"})
      .just("false")
      .needs(capability::optimizers);
  key("max_grad_norm", number, "none", "Never accepted: use gradient_clipping.")
      .refused("use gradient_clipping at the top level");
}

/// Adds the keys that only SGD, Adagrad, LAMB or Muon read.
void add_other_rules(parameter_rows key) {
  key("momentum", number, "0.0", "How slowly the moment forgets.")
      .at_least(0)
      .of({"sgd", "muon"})
      .by_default_of("muon", "0.95")
      .into<&job::optimizer, &optimizer::momentum>();
  key("dampening", number, "0.0", "The share of a gradient that the moment leaves out.")
      .of({"sgd"})
      .into<&job::optimizer, &optimizer::dampening>();
  key("nesterov", boolean, "false", "Look ahead along the moment.")
      .of({"sgd", "muon"})
      .by_default_of("muon", "true")
      .into<&job::optimizer, &optimizer::nesterov>();
  key("lr_decay", number, "0.0", "How fast the learning rate falls: lr / (1 + steps x this).")
      .at_least(0)
      .of({"adagrad"})
      .into<&job::optimizer, &optimizer::lr_decay>();
  key("initial_accumulator_value", number, "0.0", "Where the sum of squares starts.")
      .at_least(0)
      .of({"adagrad"})
      .into<&job::optimizer, &optimizer::initial_accumulator_value>();
  key("max_coeff", number, "10.0", "The largest trust ratio.")
      .above(0)
      .of({"lamb"})
      .into<&job::optimizer, &optimizer::max_coeff>();
  key("min_coeff", number, "0.01", "The smallest trust ratio.")
      .at_least(0)
      .of({"lamb"})
      .into<&job::optimizer, &optimizer::min_coeff>();
  key("eps_inside_sqrt", boolean, "false", "eps under the root.")
      .of({"lamb"})
      .just("false")
      .needs(capability::optimizers);
  key("muon_lr", number, "none", "Learning rate of matrices; none: lr.")
      .at_least(0)
      .of({"muon"})
      .into<&job::optimizer, &optimizer::muon_lr>();
  key("adam_lr", number, "none", "Learning rate of everything else; none: lr, and 0.0003 where that is not given.")
      .at_least(0)
      .of({"muon"})
      .into<&job::optimizer, &optimizer::adam_lr>();
  key("ns_steps", integer, "5", "Newton-Schulz iterations that make a matrix's moment orthogonal.")
      .at_least(1)
      .at_most(100)
      .of({"muon"})
      .into<&job::optimizer, &optimizer::ns_steps>();
  key("ns_method", text, "gram", "How the iterations are computed.")
      .one_of({"gram", "standard"})
      .of({"muon"})
      .ignored("the polynomial is the same, and computed one way");
}

/// Adds the keys of DeepSpeed's optimizers that Troupe does not implement yet.
void add_later_rules(parameter_rows key) {
  const auto later = [&](const char* name, value_type type, const char* by_default, const char* meaning) -> key_info& {
    return key(name, type, by_default, meaning)
        .of({"onebitadam", "zerooneadam", "onebitlamb"})
        .when(capability::optimizers);
  };
  later("freeze_step", integer, "100000", "1-bit rules: steps until they compress.").at_least(0);
  later("var_freeze_step", integer, "100000", "0/1 Adam: steps until the variance stays.").at_least(0);
  later("var_update_scaler", integer, "16", "0/1 Adam: steps between updates of the variance.").at_least(1);
  later("local_step_scaler", integer, "32678", "0/1 Adam: steps between two exchanges.").at_least(1);
  later("local_step_clipper", integer, "16", "0/1 Adam: the most of those.").at_least(1);
  later("coeff_beta", number, "0.9", "1-bit LAMB: how slowly the ratio forgets.").at_least(0).below(1);
  later("factor_max", number, "4.0", "1-bit LAMB: a bound.").at_least(0);
  later("factor_min", number, "0.5", "1-bit LAMB: a bound.").at_least(0);
  later("factor_threshold", number, "0.1", "1-bit LAMB: a bound.").at_least(0);
  later("cuda_aware", boolean, "false", "1-bit rules: MPI takes GPU memory.").ignored("exchange is not by MPI");
  later("comm_backend_name", text, "nccl", "1-bit rules: what exchanges.").ignored("the fabric decides");
  for (const char* name : {"fused", "foreach", "capturable", "differentiable", "set_grad_none"})
    key(name, boolean, "false", "An option of a PyTorch optimizer.").ignored("there is one kernel of each rule");
  key("maximize", boolean, "false", "Make the loss larger.").just("false").ignored("a run makes its loss smaller");
}

}  // namespace

void add_optimizer_keys(key_rows& t) {
  t.row("optimizer", section).means("How gradients change parameters.");
  t.row("optimizer.type", text)
      .by_default("adamw")
      .one_of({core::optimizer_names.begin(), core::optimizer_names.end()})
      .or_later({"onebitadam", "zerooneadam", "onebitlamb", "muadam", "muadamw", "musgd", "adadelta", "adafactor",
                 "adamax", "asgd", "lbfgs", "nadam", "radam", "rmsprop", "rprop", "sparseadam"})
      .needs(capability::optimizers)
      .in_any_case()
      .into<&job::optimizer, &optimizer::type>()
      .means(
          "The rule, at every stage. Adam decouples weight decay too, unless adam_w_mode is false. host: that of an "
          "embedding program.");
  t.row("optimizer.legacy_fusion", boolean)
      .by_default("false")
      .ignored("one fused kernel for all")
      .means("An older fused kernel.");
  t.row("optimizer.params", section).means("The rule's numbers; a rule has those that name it, or name none.");
  const parameter_rows key(t);
  add_moment_keys(key);
  add_other_rules(key);
  add_later_rules(key);
}

}  // namespace troupe::config
