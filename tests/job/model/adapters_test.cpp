// Tests which linear layers the names of a section `lora` give adapters, and the refusals of names and of adapters of
// another base.
#include "job/model/adapters.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

#include "formats/peft/adapter_folder.hpp"
#include "tests/check_ok.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

namespace troupe::job {

BOOST_AUTO_TEST_SUITE(adapters)

namespace {

using tests::has;

const std::filesystem::path fixtures =
    std::filesystem::path(troupe::places::source_dir) / "tests" / "models" / "fixtures";

models::model_spec base(const std::string& name) { return *tests::check_ok(models::read_spec(fixtures / name)); }

config::lora_section section(std::vector<std::string> targets) {
  config::lora_section out;
  out.given = true;
  out.targets = std::move(targets);
  return out;
}

std::vector<std::string> layers_of(const std::string& name, std::vector<std::string> targets) {
  const auto found = choose_adapters(section(std::move(targets)), base(name));
  BOOST_REQUIRE_MESSAGE(found.has_value(), (found ? "" : found.error().text));
  return (*found)->layers;
}

std::string refusal(const config::lora_section& lora, const std::string& name = "llama") {
  const auto found = choose_adapters(lora, base(name));
  return found ? "taken" : found.error().key + ": " + found.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_match_as_those_of_peft) {
  const std::vector<std::string> queries{"model.layers.0.self_attn.q_proj", "model.layers.1.self_attn.q_proj"};
  BOOST_TEST(layers_of("llama", {"q_proj"}) == queries, boost::test_tools::per_element());
  BOOST_TEST(layers_of("llama", {"self_attn.q_proj", "q_proj"}) == queries, boost::test_tools::per_element());
  BOOST_TEST(layers_of("llama", {"model.layers.1.self_attn.q_proj"}).size() == 1U);
  BOOST_TEST(layers_of("llama", {"all-linear"}).size() == 14U);
  BOOST_TEST(layers_of("gpt2", {"c_proj"}).size() == 4U);  // of attention and of the MLP
  BOOST_TEST(layers_of("gpt2", {"c_attn"}).size() == 2U);
  BOOST_TEST(layers_of("phi3", {"qkv_proj"}).size() == 1U);
  BOOST_TEST(!choose_adapters({}, base("llama"))->has_value());
}

BOOST_AUTO_TEST_CASE(the_written_targets_select_the_layers_again) {
  const auto targets = [](const std::string& name, std::vector<std::string> wanted) {
    return (*choose_adapters(section(std::move(wanted)), base(name)))->targets;
  };
  BOOST_TEST(targets("llama", {"q_proj"}) == std::vector<std::string>{"q_proj"}, boost::test_tools::per_element());
  const std::vector<std::string> one{"model.layers.1.self_attn.q_proj"}, attention{"attn.c_proj"};
  BOOST_TEST(targets("llama", one) == one, boost::test_tools::per_element());
  // "c_proj" would select the layers of the MLPs, too.
  for (const std::string& target : targets("gpt2", attention)) BOOST_TEST(has(target, ".attn.c_proj"), target);
}

BOOST_AUTO_TEST_CASE(names_of_no_linear_layer_are_refused_with_the_nearest) {
  BOOST_TEST(refusal(section({"qproj"})) ==
             "lora.targets: wanted names of linear layers, or their last parts, or all-linear, got 'qproj', which no "
             "layer has; the nearest are q_proj, k_proj, o_proj");
  BOOST_TEST(has(refusal(section({".*q_proj"})), "got the pattern '.*q_proj', and patterns are not read"));
  BOOST_TEST(has(refusal(section({"proj"})), "which no layer has"));  // names end where a part ends
  BOOST_TEST(has(refusal(section({"lm_head"})), "got 'lm_head', the head; lora.modules_to_save"));
  BOOST_TEST(has(refusal(section({"embed_tokens"})), "is a layer of kind embedding"));
  auto lora = section({"q_proj"});
  lora.modules_to_save = {"q_proj"};
  BOOST_TEST(has(refusal(lora), "lora.modules_to_save: wanted layers without an adapter"));
  lora.modules_to_save = {"head"};
  BOOST_TEST(has(refusal(lora), "lora.modules_to_save: wanted names of layers"));
  lora = section({"c_attn"});
  lora.modules_to_save = {"wte"};
  BOOST_TEST(has(refusal(lora, "gpt2"), "which shares its weight with 'lm_head'"));
}

BOOST_AUTO_TEST_CASE(a_folder_of_peft_determines_layers_and_numbers) {
  config::lora_section lora;
  lora.given = true;
  lora.from = fixtures / "lora_llama";
  const auto found = choose_adapters(lora, base("llama"));
  BOOST_REQUIRE(found.has_value() && found->has_value());
  const models::adapter_spec& spec = **found;
  BOOST_TEST(spec.rank == 3U);
  BOOST_TEST(spec.scale() == 7.0 / 3.0);
  BOOST_TEST(spec.layers.size() == 14U);
  BOOST_TEST(spec.trained == std::vector<std::string>{"lm_head"}, boost::test_tools::per_element());
  lora.r = 4;
  lora.r_given = true;
  BOOST_TEST(has(refusal(lora), "lora.r: wanted 3, as in "));
  lora.r_given = false;
  lora.targets = {"q_proj"};
  BOOST_TEST(has(refusal(lora), "lora.targets: wanted the layers of "));
  lora.targets = {"all-linear"};
  BOOST_TEST(refusal(lora) == "taken");
}

BOOST_AUTO_TEST_CASE(an_adapter_of_another_base_is_refused_with_its_name) {
  config::lora_section lora;
  lora.given = true;
  lora.from = fixtures / "lora_llama";
  const auto other_names = refusal(lora, "gpt2");
  BOOST_TEST(has(other_names, "is no adapter of this model: this model has no linear layer 'model.layers.0."));
  BOOST_TEST(has(other_names, "its base is 'somebody/tiny-llama'"));
  auto wider = base("llama");
  wider.inner *= 2;
  const auto found = choose_adapters(lora, wider);
  BOOST_TEST_REQUIRE(!found.has_value());
  BOOST_TEST(has(found.error().text, "has the shape"), found.error().text);
  BOOST_TEST(static_cast<int>(found.error().kind) == static_cast<int>(core::error_kind::mismatch));
}

BOOST_AUTO_TEST_CASE(adapters_are_written_as_a_folder_that_begins_a_run_again) {
  const tests::scratch_folder at;
  auto spec = base("gpt2");
  auto lora = section({"c_attn", "c_proj"});
  lora.alpha = 3;
  lora.rslora = true;
  spec.adapters = *choose_adapters(lora, spec);
  const auto read = [](const std::string& name, uint64_t first, std::span<float> out) -> core::result<void> {
    for (size_t i = 0; i < out.size(); ++i) out[i] = static_cast<float>(name.size() + first + i);
    return {};
  };
  tests::check_ok(write_adapters(at.path(), spec, "the/base", read));
  const auto folder = *tests::check_ok(formats::peft_adapter::open(at.path()));
  BOOST_TEST(folder->options().base == "the/base");
  BOOST_TEST(folder->options().is_in_out);
  BOOST_TEST(folder->options().scale() == spec.adapters->scale());
  config::lora_section again;
  again.given = true;
  again.from = at.path();
  const auto found = choose_adapters(again, base("gpt2"));
  BOOST_REQUIRE(found.has_value() && found->has_value());
  BOOST_TEST((*found)->layers == spec.adapters->layers, boost::test_tools::per_element());
  const std::string name = "transformer.h.1.mlp.c_proj.lora_A.weight";
  std::vector<float> values(2);
  tests::check_ok(folder->read(*folder->find(name), 1, values));
  BOOST_TEST(values[0] == static_cast<float>(name.size() + 1));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::job
