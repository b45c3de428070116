// Tests which tensors of a deeper model initialize a shallower one.
#include "job/model/layer_reduction.hpp"

#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <functional>

#include "models/table/model_spec.hpp"
#include "tests/check_ok.hpp"

namespace troupe::job {

BOOST_AUTO_TEST_SUITE(layer_reduction)

namespace {

core::model_table gpt2(int layers, int width = 16) {
  const auto spec = models::parse_model_spec(fmt::format(
      R"({{"model_type": "gpt2", "n_layer": {}, "n_embd": {}, "n_head": 4, "n_positions": 16, "vocab_size": 30}})",
      layers, width));
  return models::make_model_table(spec.value(), 1, 8, 4);
}

config::job_config reduced(uint64_t keep, std::vector<uint64_t> layers, std::string prefix = "transformer.h",
                           std::vector<std::string> others = {"transformer.wte", "transformer.ln_f"}) {
  config::job_config out;
  out.compression.layers = {true,         keep,         std::move(prefix), std::move(layers), std::move(others),
                            "job.yaml:3", "job.yaml:4", "job.yaml:5",      "job.yaml:6"};
  return out;
}

std::vector<source_tensor> source_of(const core::model_table& table, size_t cut_from_names = 0) {
  std::vector<source_tensor> out;
  for (const auto& p : table.parameters) out.push_back({p.name.substr(cut_from_names), p.shape});
  return out;
}

std::string refusal(const config::job_config& c, const core::model_table& model, const core::model_table& source) {
  if (auto ok = check_layer_reduction(c, model); !ok) return ok.error().text;
  const auto names = reduced_layers(c, model, source_of(source));
  return names ? "taken" : names.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_layer_begins_with_the_teachers_and_other_modules_by_name) {
  const auto model = gpt2(2), source = gpt2(6);
  // Some files omit the prefix `transformer.`.
  for (const size_t cut : {size_t{0}, std::string("transformer.").size()}) {
    BOOST_TEST_INFO_SCOPE("cut " << cut);
    const auto names = troupe::tests::check_ok(reduced_layers(reduced(2, {1, 4}), model, source_of(source, cut)));
    for (size_t q = 0; q < model.parameters.size(); ++q) {
      BOOST_TEST_INFO_SCOPE("q " << q);
      std::string name = model.parameters[q].name;
      const auto moved = [&](const std::string& from, const std::string& to) {
        if (const auto at = name.find(from); at != std::string::npos) name.replace(at, from.size(), to);
      };
      moved("h.1.", "h.4.");
      moved("h.0.", "h.1.");
      const bool taken = name.find("wpe") == std::string::npos;  // no rule names this tensor
      BOOST_TEST((*names)[q].has_value() == taken, name);
      if (taken) BOOST_TEST(*(*names)[q] == name.substr(cut));
    }
  }
}

BOOST_AUTO_TEST_CASE(names_with_what_wrappers_and_model_classes_add_are_found_whoever_has_it) {
  const auto plain = gpt2(2), deep = gpt2(6);
  const std::vector<std::function<std::string(std::string)>> ways = {
      [](const std::string& n) { return "model." + n; },
      [](const std::string& n) { return "model.model." + n; },
      [](const std::string& n) { return "_orig_mod.module." + n; },
      [](const std::string& n) { return "module.transformer.model." + n.substr(n.find('.') + 1); },
      [](std::string n) { return n.replace(n.find('.'), 1, "._fsdp_wrapped_module."); },
      [](std::string n) {
        if (const auto at = n.find("h.1."); at != n.npos) n.replace(at, 4, "h.1._checkpoint_wrapped_module._orig_mod.");
        return n;
      }};
  const auto as = [](core::model_table of, const auto& way) {
    for (auto& p : of.parameters) p.name = way(p.name);
    return of;
  };
  const auto wanted = reduced_layers(reduced(2, {1, 4}), plain, source_of(deep)).value();
  for (const auto& way : ways) {
    const auto got = troupe::tests::check_ok(reduced_layers(reduced(2, {1, 4}), plain, source_of(as(deep, way))));
    for (size_t q = 0; q < wanted.size(); ++q)
      BOOST_TEST((*got)[q].value_or("none") == (wanted[q] ? way(*wanted[q]) : "none"));
    const auto of_wrapped =
        troupe::tests::check_ok(reduced_layers(reduced(2, {1, 4}), as(plain, way), source_of(deep)));
    BOOST_TEST((*of_wrapped == wanted));
    BOOST_TEST(refusal(reduced(2, {1, 4}), as(plain, way), deep) == "taken");
  }
  const auto keys = reduced(2, {1, 4}, "model.model.h", {"module.wte", "_orig_mod.transformer.ln_f"});
  BOOST_TEST(refusal(keys, plain, deep) == "taken");
  BOOST_TEST((reduced_layers(keys, plain, source_of(deep)).value() == wanted));
}

BOOST_AUTO_TEST_CASE(a_module_of_a_hosts_that_is_called_as_a_wrapper_calls_its_own_is_found_by_its_name) {
  const auto stack = [](int layers) {
    core::model_table out;
    for (int i = 0; i < layers; ++i) out.parameters.emplace_back().name = fmt::format("module.{}.weight", i);
    return out;
  };
  const auto names =
      troupe::tests::check_ok(reduced_layers(reduced(2, {1, 3}, "module", {}), stack(2), source_of(stack(4))));
  BOOST_TEST((*names == std::vector<std::optional<std::string>>{"module.1.weight", "module.3.weight"}));
}

BOOST_AUTO_TEST_CASE(a_bare_name_that_two_of_the_teachers_tensors_have_is_refused) {
  const auto model = gpt2(2), deep = gpt2(6);
  auto source = source_of(deep);
  for (auto& t : source) t.name = "model." + t.name;
  const auto twice = source.front();
  source.push_back({"module." + twice.name, twice.shape});
  const auto names = reduced_layers(reduced(2, {1, 4}), model, source);
  BOOST_TEST_REQUIRE(!names.has_value());
  BOOST_TEST(names.error().text ==
             "job.yaml:3: compression_training.layer_reduction.enabled: the teacher has several tensors that may be "
             "transformer.wte.weight: model.transformer.wte.weight and module.model.transformer.wte.weight; "
             "transformer.wte.weight takes its first values from it");
}

BOOST_AUTO_TEST_CASE(what_cannot_be_is_refused_with_the_line_of_its_key) {
  const auto model = gpt2(2), source = gpt2(6);
  const std::string key = "compression_training.layer_reduction.";
  BOOST_TEST(refusal(reduced(2, {1, 4}), model, source) == "taken");
  BOOST_TEST(refusal(reduced(2, {1, 6}), model, source) ==
             "job.yaml:4: " + key + "teacher_layer: wanted layers of the teacher, which has 6, counted from 0, got 6");
  BOOST_TEST(refusal(reduced(3, {1, 2, 3}), model, source) ==
             "job.yaml:3: " + key + "keep_number_layer: wanted the model's 2 layers, got 3");
  BOOST_TEST(refusal(reduced(2, {1, 4}, "bert.encoder.layer"), model, source) ==
             "job.yaml:5: " + key +
                 "module_name_prefix: wanted the part of the model's parameter names before the layer number, got "
                 "bert.encoder.layer, which is in none of them");
  BOOST_TEST(refusal(reduced(2, {1, 4}, "transformer.h", {"transformer.w"}), model, source) ==
             "job.yaml:6: " + key + "other_module_name: wanted modules of the model, got transformer.w");
  BOOST_TEST(refusal(reduced(2, {1, 4}), model, gpt2(6, 8)) ==
             "job.yaml:3: " + key +
                 "enabled: transformer.wte.weight: wanted a teacher as wide as the model, (30, 16), got (30, 8)");
  const auto llama = models::parse_model_spec(
      R"({"model_type": "llama", "num_hidden_layers": 6, "hidden_size": 16, "num_attention_heads": 4,
          "intermediate_size": 32, "max_position_embeddings": 16, "vocab_size": 30})");
  BOOST_TEST(refusal(reduced(2, {1, 4}), model, models::make_model_table(llama.value(), 1, 8, 4)) ==
             "job.yaml:5: " + key +
                 "module_name_prefix: wanted the part of the teacher's parameter names before the layer number, got "
                 "transformer.h, which is in none of them");
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace troupe::job
