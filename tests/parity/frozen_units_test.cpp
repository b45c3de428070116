// Checks that a model whose first units are frozen, of which no backward is run, has the bits of the model in which
// these units go back and do not change, at every cut and with recomputation.
#include <cmath>

#include "tests/parity/cuts.hpp"

BOOST_AUTO_TEST_SUITE(frozen_units)

using namespace troupe;
using namespace troupe::tests;

namespace {

const std::string lower = R"('wte|wpe|embed_tokens|\.[01]\.')";

std::string frozen(const std::string& model) {
  return model + "parameter_groups: [{match: " + lower + ", trainable: false}]\n";
}

/// Returns the weights and moments of the parameters that `s` trains, by name.
std::map<std::string, std::vector<float>> trained_of(const actors::session& s, const core::model_table& of) {
  std::map<std::string, std::vector<float>> out;
  for (uint32_t q = 0; q < of.parameters.size(); ++q) {
    if (!of.parameters[q].trainable) continue;
    out.emplace(of.parameters[q].name, parameter_of(s, q));
    out.emplace(of.parameters[q].name + " moment", moment_of(s, q, 0));
  }
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(units_that_do_not_go_back_leave_the_bits_of_units_that_go_back_and_do_not_change) {
  for (const std::string& model : {gpt2, llama})
    for (const settings& more : {settings{}, settings{"bf16.enabled=true"}}) {
      const small_job still(model + "parameter_groups: [{match: " + lower + ", lr: 0, weight_decay: 0}]\n");
      const small_job job(frozen(model));
      const settings set = cuts(job).front().all() + more + settings{"gradient_clipping=0"};
      const auto whole = open(still, set), part = open(job, set);
      const auto wanted = losses_of(*whole, 3);
      BOOST_TEST(wanted.front() != wanted.back());
      BOOST_TEST(losses_of(*part, 3) == wanted, boost::test_tools::per_element());
      check_equal(trained_of(*part, part->table()), trained_of(*whole, part->table()));
      BOOST_TEST(part->table().first_trained_unit() == 3U);
      for (const auto& x : part->training_plan(0).instructions)
        if (x.kind == plan::kind::backward) BOOST_TEST(x.subject >= 3U);
    }
}

BOOST_AUTO_TEST_CASE(every_cut_has_the_bits_of_the_uncut_model) {
  for (const std::string& model : {gpt2, llama}) {
    const small_job job(frozen(model));
    auto all = cuts(job);
    all.push_back({"recomputed", 2, stage(2) + settings{"activation_checkpointing.enabled=true"}});
    all.push_back({"pipeline 4, only the last trains", 2, pipeline(4, "1f1b") + stage(3)});
    const cut& uncut = all.front();
    const auto s = open(job, uncut.all());
    const auto wanted = losses_of(*s, 3);
    const auto ends = tensors_of(*s);
    for (const cut& c : all) BOOST_TEST_CONTEXT(c.name) {
        if (!c.adds_alike(uncut)) continue;
        const auto t = open(job, c.all());
        BOOST_TEST(losses_of(*t, 3) == wanted, boost::test_tools::per_element());
        check_equal(tensors_of(*t), ends);
      }
  }
}

BOOST_AUTO_TEST_CASE(tensor_ranks_have_the_same_losses_at_every_stage_and_schedule) {
  const small_job job(frozen(llama));
  const auto all = tensor_cuts(job);
  std::map<std::string, std::vector<double>> first;  // by degrees, which decide the bits
  for (const cut& c : all) BOOST_TEST_CONTEXT(c.name) {
      const auto s = open(job, c.all());
      const auto losses = losses_of(*s, 2);
      const auto [at, fresh] = first.emplace(fmt::format("{} {} {} {}", c.data, c.tensor, c.columns, c.tied), losses);
      BOOST_TEST(losses == at->second, boost::test_tools::per_element());
      BOOST_TEST(std::abs(losses.front() / first.begin()->second.front() - 1) < 1e-5);
    }
}

BOOST_AUTO_TEST_SUITE_END()
