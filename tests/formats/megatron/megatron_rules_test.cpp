// Tests how parameters are cut over tensor-parallel ranks: the rules by name, the arithmetic compared with values
// computed by hand, and round trips.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>
#include <numeric>
#include <random>

#include "core/tensor_view.hpp"
#include "core/tp_slices.hpp"
#include "formats/megatron/source.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(megatron_rules)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

using shape = std::vector<int64_t>;
using shape_type = shape;
using values = std::vector<int>;

values counted(size_t n, int from = 0) {
  values out(n);
  std::iota(out.begin(), out.end(), from);
  return out;
}

/// Returns the elements of each rank's slice of `whole` under the cut.
std::vector<values> taken(const tensor_cut& cut, const values& whole) {
  std::vector<values> out;
  for (const auto& s : cut.slices) out.emplace_back(core::numel_of(s), 0);
  for (const auto& r : cut.runs)
    std::copy_n(whole.begin() + static_cast<long>(r.whole_first), r.count,
                out[r.rank].begin() + static_cast<long>(r.slice_first));
  return out;
}

/// Returns the whole tensor joined from `slices`, with -1 for elements that no slice contains.
values joined(const tensor_cut& cut, const std::vector<values>& slices) {
  values out(core::numel_of(cut.whole), -1);
  for (const auto& r : cut.runs)
    std::copy_n(slices[r.rank].begin() + static_cast<long>(r.slice_first), r.count,
                out.begin() + static_cast<long>(r.whole_first));
  return out;
}

tensor_cut split(const cut_rule& rule, const shape& whole, uint32_t ranks) {
  auto cut = check_ok(cut_to_split("p", rule, whole, ranks));
  return std::move(*cut);
}

tensor_cut merge(const cut_rule& rule, const std::vector<shape>& slices) {
  auto cut = check_ok(cut_to_merge("p", rule, slices));
  return std::move(*cut);
}

constexpr std::string_view qkv = "language_model.transformer.layers.0.attention.query_key_value.weight";

/// Returns an entry for a tensor that begins at element `at` of the file.
tensor_entry entry(const std::string& name, const shape& s, uint64_t at) {
  return {name, tensor_kind::master, "", core::dtype::i32, s, {{0, 0, core::numel_of(s), at * 4, {}}}};
}

/// Returns the tensor's values, if element i of the file has the value i.
values read(const tensor_entry& t) {
  values out;
  for (const auto& p : t.pieces)
    for (uint64_t i = 0; i < p.count; ++i) out.push_back(static_cast<int>(p.offset_bytes / 4 + i));
  return out;
}

pattern_rules rules_of(universal_patterns p) {
  auto r = check_ok(pattern_rules::create(std::move(p)));
  return std::move(*r);
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_choose_how_a_parameter_is_cut) {
  const auto rule = [](std::string_view name) { return megatron_rule(name, qkv_version::v2); };
  for (const char* name :
       {"layers.3.attention.dense.weight", "layers.3.self_attention.dense.weight", "layers.3.mlp.dense_4h_to_h.weight"})
    BOOST_TEST((rule(name).kind == cut_kind::along && rule(name).dimension == 1), name);
  for (const char* name :
       {"layers.3.mlp.dense_h_to_4h.weight", "layers.3.mlp.dense_h_to_4h.bias", "embedding.word_embeddings.weight",
        "head.final_linear.weight", "layers.3.attention.query_key_value.bias"})
    BOOST_TEST((rule(name).kind == cut_kind::along && rule(name).dimension == 0), name);
  for (const char* name : {"layers.3.input_layernorm.weight", "layers.3.mlp.dense_4h_to_h.bias",
                           "layers.3.attention.dense.bias", "position_embeddings.weight"}) {
    BOOST_TEST_INFO_SCOPE(name);
    BOOST_TEST((rule(name).kind == cut_kind::replicated), name);
    BOOST_TEST(!is_megatron_name(name));
  }
  BOOST_TEST(megatron_rule(qkv, qkv_version::v0).sub_parameters == 3U);
  BOOST_TEST(megatron_rule(qkv, qkv_version::v1).sub_parameters == 1U);
  check_ok(qkv_version_from(1.0));
  check_failed(qkv_version_from(1.5), core::error_kind::bad_input, "0, 1.0 or 2.0");
}

BOOST_AUTO_TEST_CASE(layers_files_are_joined_by_their_own_rules) {
  for (const char* key : {"input_layernorm.weight", "input_layernorm.bias", "self_attention.dense.bias",
                          "post_attention_layernorm.weight", "post_attention_layernorm.bias", "mlp.dense_4h_to_h.bias",
                          "position_embeddings.weight"})
    BOOST_TEST((layer_rule(key).kind == cut_kind::replicated), key);
  for (const char* key : {"self_attention.dense.weight", "mlp.dense_4h_to_h.weight"})
    BOOST_TEST((layer_rule(key).dimension == 1 && layer_rule(key).kind == cut_kind::along), key);
  for (const char* key : {"self_attention.query_key_value.weight", "mlp.dense_h_to_4h.bias", "word_embeddings.weight"})
    BOOST_TEST((layer_rule(key).dimension == 0 && layer_rule(key).kind == cut_kind::along), key);
}

BOOST_AUTO_TEST_CASE(queries_keys_and_values_of_version_0_are_cut_one_by_one) {
  const auto rule = megatron_rule(qkv, qkv_version::v0);
  // Each of the 6 rows has one element; their order is q0 q1 k0 k1 v0 v1.
  const auto cut = split(rule, {6, 1}, 2);
  BOOST_TEST(taken(cut, counted(6))[0] == (values{0, 2, 4}), boost::test_tools::per_element());
  BOOST_TEST(taken(cut, counted(6))[1] == (values{1, 3, 5}), boost::test_tools::per_element());
  BOOST_TEST(joined(merge(rule, {{3, 1}, {3, 1}}), {{0, 2, 4}, {1, 3, 5}}) == counted(6),
             boost::test_tools::per_element());
  const auto plain = split(megatron_rule(qkv, qkv_version::v2), {6, 1}, 2);
  BOOST_TEST(taken(plain, counted(6))[0] == (values{0, 1, 2}), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(columns_are_cut_row_by_row) {
  const auto rule = megatron_rule("mlp.dense_4h_to_h.weight", qkv_version::v0);
  const auto cut = split(rule, {2, 4}, 2);
  BOOST_TEST(taken(cut, counted(8))[0] == (values{0, 1, 4, 5}), boost::test_tools::per_element());
  BOOST_TEST((cut.slices[1] == shape{2, 2}));
  const auto back = merge(rule, {{2, 1}, {2, 3}});
  BOOST_TEST((back.whole == shape{2, 4}));
  BOOST_TEST(joined(back, {{0, 4}, {1, 2, 3, 5, 6, 7}}) == counted(8), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(every_version_comes_back_from_every_number_of_ranks) {
  // The whole tensor has 8 heads of 3 rows. Splitting it for `from` ranks, joining the parts and splitting the result
  // for `to` ranks must equal a direct split.
  const shape whole{8 * 3 * 3, 5};
  for (const auto version : {qkv_version::v0, qkv_version::v1, qkv_version::v2})
    for (const auto& [from, to] : std::vector<std::pair<uint32_t, uint32_t>>{{4, 2}, {4, 1}, {1, 4}, {2, 4}, {2, 2}}) {
      const auto rule = megatron_rule(qkv, version);
      const auto all = counted(core::numel_of(whole));
      const auto first = split(rule, whole, from);
      const auto back = joined(merge(rule, first.slices), taken(first, all));
      BOOST_TEST(back == all, boost::test_tools::per_element());
      const auto second = split(rule, whole, to);
      BOOST_TEST((taken(second, back) == taken(split(rule, whole, to), all)));
    }
}

BOOST_AUTO_TEST_CASE(random_cuts_are_undone_by_their_merge) {
  std::mt19937_64 random(7);
  const auto draw = [&](int64_t low, int64_t high) { return std::uniform_int_distribution(low, high)(random); };
  for (int i = 0; i < 400; ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto ranks = static_cast<uint32_t>(draw(1, 5));
    cut_rule rule{.kind = cut_kind::along, .dimension = static_cast<size_t>(draw(0, 2))};
    shape whole{draw(1, 6), draw(1, 6), draw(1, 6)};
    if (draw(0, 1) == 0) {  // the parts have any size and are cut unevenly
      rule.uneven = uneven_split::one_more_each;
      const int64_t parts = draw(1, 3);
      whole[rule.dimension] = 0;
      for (int64_t p = 0; p < parts; ++p) {
        rule.part_sizes.push_back(draw(1, 9));
        whole[rule.dimension] += rule.part_sizes.back();
      }
    } else {
      rule.sub_parameters = static_cast<uint32_t>(draw(1, 3));
      whole[rule.dimension] = draw(1, 3) * rule.sub_parameters * ranks;
    }
    const auto cut = split(rule, whole, ranks);
    const auto all = counted(core::numel_of(whole));
    const auto back = merge(rule, cut.slices);
    BOOST_REQUIRE((back.whole == whole));
    BOOST_REQUIRE((joined(back, taken(cut, all)) == all));
    BOOST_REQUIRE((back.runs == cut.runs));
  }
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_divide_are_refused_or_cut_unevenly) {
  check_failed(cut_to_split("p", {.kind = cut_kind::along}, {7, 2}, 2), core::error_kind::bad_input,
               "7 cannot be divided by 2 ranks");
  check_failed(cut_to_merge("p", {.kind = cut_kind::along}, std::vector<shape>{{2, 3}, {2, 4}}),
               core::error_kind::bad_input, "differ beyond dimension 0");
  check_failed(cut_to_merge("p", {.kind = cut_kind::along, .dimension = 1}, std::vector<shape>{{2}, {2}}),
               core::error_kind::bad_input, "dimension 1");
  check_failed(cut_to_merge("p", {}, std::vector<shape>{{2}, {3}}), core::error_kind::bad_input,
               "every rank has a whole copy");
  check_failed(cut_to_merge("p", {.kind = cut_kind::along}, std::vector<shape>{{-1}}), core::error_kind::bad_input,
               "negative");
  BOOST_TEST(split_widths(10, 4, uneven_split::one_more_each).value() == (shape{3, 3, 2, 2}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(vocabularies_lose_their_padding_and_get_it_back) {
  const cut_rule rule{.kind = cut_kind::along, .original_rows = 5};
  const auto cut = split(rule, {5, 2}, 4);
  BOOST_TEST((cut.slices == std::vector<shape>(4, shape{2, 2})));
  BOOST_TEST(taken(cut, counted(10, 1))[2] == (values{9, 10, 0, 0}), boost::test_tools::per_element());
  const auto back = merge(rule, cut.slices);
  BOOST_TEST((back.whole == shape{5, 2}));
  BOOST_TEST(joined(back, taken(cut, counted(10, 1))) == counted(10, 1), boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(versions_of_query_key_value_are_orders_of_rows) {
  // Each of the 2 heads has 2 rows; the order of version 0 is q00 q01 q10 q11 k00 ...
  BOOST_TEST(
      qkv_rows(qkv_version::v0, qkv_version::v2, 2, 2) == (std::vector<uint32_t>{0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11}),
      boost::test_tools::per_element());
  BOOST_TEST(
      qkv_rows(qkv_version::v0, qkv_version::v1, 2, 2) == (std::vector<uint32_t>{0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11}),
      boost::test_tools::per_element());
  const auto t = entry("q", {12, 3}, 0);
  const auto there = check_ok(reordered_qkv(t, qkv_version::v1, qkv_version::v2, 2));
  BOOST_TEST((read(*there) != read(t)));
  const auto back = check_ok(reordered_qkv(*there, qkv_version::v2, qkv_version::v1, 2));
  BOOST_TEST(read(*back) == read(t), boost::test_tools::per_element());
  BOOST_TEST(back->pieces.size() == 1U);
  check_failed(reordered_qkv(t, qkv_version::v1, qkv_version::v2, 5), core::error_kind::bad_input, "5 heads");
}

BOOST_AUTO_TEST_CASE(patterns_choose_in_the_order_of_the_reference) {
  universal_patterns p;
  p.version = 0.2;
  p.original_vocabulary = 11;
  p.vocabulary = {R"(^wte\.weight$)", ".*lm_head"};
  p.replicated = {R"(.*norm\.weight)"};
  p.averaged = {"position"};
  p.row_parallel = {R"(h\.\d+\.out\.weight)"};
  p.two_parts = {".*gate_up"};
  p.sub_parameters.push_back({.patterns = {R"(^h\.0\.qkv$)"}, .view = {0, -1}, .part_sizes = {4, 2, 2}});
  auto rules = rules_of(p);
  BOOST_TEST((rules.rule("h.3.norm.weight")->kind == cut_kind::replicated));
  BOOST_TEST((rules.rule("position.weight")->kind == cut_kind::averaged));
  BOOST_TEST(rules.rule("a.position")->dimension == 0U);  // a pattern must match from the first character of the name
  BOOST_TEST(rules.rule("h.12.out.weight")->dimension == 1U);
  BOOST_TEST(rules.rule("h.0.gate_up.weight")->sub_parameters == 2U);
  BOOST_TEST(rules.rule("wte.weight")->original_rows == 11);
  BOOST_TEST((rules.rule("other")->kind == cut_kind::along && rules.rule("other")->dimension == 0));
  const auto parts = check_ok(rules.rule("h.0.qkv"));
  // The 8 rows of one element form parts of 4, 2 and 2 rows, and each rank has half of each part.
  BOOST_TEST(taken(split(*parts, {8, 1}, 2), counted(8))[1] == (values{2, 3, 5, 7}), boost::test_tools::per_element());
  BOOST_TEST(joined(merge(*parts, {{4, 1}, {4, 1}}), {{0, 1, 4, 6}, {2, 3, 5, 7}}) == counted(8),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(published_widths_join_parts_of_any_width) {
  universal_patterns p;
  p.version = 0.4;
  p.sub_parameters.push_back({.patterns = {"^qkv$", "^lost$"}, .view = {0, 2}, .part_sizes = {3, 2}});
  p.shard_widths["^qkv$"] = {{2, 1, 0}, {1, 1, 0}};
  auto rules = rules_of(p);
  const auto rule = check_ok(rules.rule("qkv"));
  // The third rank has no elements. Slices are flat; the view determines their shape.
  const auto cut = merge(*rule, {{6}, {4}, {0}});
  BOOST_TEST((cut.whole == shape{5, 2}));
  BOOST_TEST(joined(cut, {{0, 1, 2, 3, 6, 7}, {4, 5, 8, 9}, {}}) == counted(10), boost::test_tools::per_element());
  check_failed(rules.rule("lost"), core::error_kind::bad_input, "sub_param_shard_widths lacks");
}

BOOST_AUTO_TEST_CASE(patterns_that_cannot_be_followed_are_refused) {
  universal_patterns p;
  p.replicated = {"a.*", ".*b"};
  p.unsupported = {{"^odd$", "its layout is unknown"}};
  auto rules = rules_of(p);
  check_failed(rules.rule("ab"), core::error_kind::bad_input, "matched by 'a.*' and by '.*b'");
  check_failed(rules.rule("odd"), core::error_kind::bad_input, "its layout is unknown");
  p.replicated = {"("};
  check_failed(pattern_rules::create(p), core::error_kind::bad_input, "wanted an RE2 pattern");
  p.replicated = {std::string(5000, 'a')};
  check_failed(pattern_rules::create(p), core::error_kind::limit, "5000 bytes");
}

BOOST_AUTO_TEST_CASE(patterns_are_read_from_a_file) {
  const scratch_folder at;
  const auto list = [](std::vector<torch_value> items) { return torch_value::list(std::move(items)); };
  auto shape = torch_value::object("deepspeed.checkpoint.universal_checkpoint", "SubparamShape");
  shape.set("patterns", list({"^qkv$"})).set("partition_dim", 0);
  shape.set("shape", list({torch_value::tuple({4, 2, 2}), -1}));
  auto counted_parts = torch_value::dict();
  counted_parts.set("patterns", list({"^gate$"})).set("partition_dim", 1).set("shape", list({8, 2}));
  auto info = torch_value::dict();
  info.set("universal_checkpoint_version", 0.4).set("original_vocab_size", 13).set("padded_vocab_size", 16);
  info.set("vocabulary_parameter_patterns", list({"^wte$"}));
  info.set("parameter_with_sub_params", list({std::move(shape), std::move(counted_parts)}));
  info.set("sub_param_shard_widths",
           torch_value::dict().set("^qkv$", list({list({2, 2}), list({1, 1}), list({1, 1})})));
  info.set("autotp_unsupported_parameter_patterns", torch_value::dict().set("^odd$", "why"));
  const auto written = [&](const char* name, torch_value value) {
    check_ok(write_torch_archive(at / name, torch_value::dict().set("info", std::move(value)), {}));
    auto file = check_ok(torch_archive::open(at / name));
    return read_universal_patterns(*file, *file->tree().find(file->root(), "info"));
  };
  const auto read = check_ok(written("good.pt", info));
  BOOST_TEST(read->version == 0.4);
  BOOST_TEST(read->original_vocabulary == 13);
  BOOST_REQUIRE(read->sub_parameters.size() == 2U);
  BOOST_TEST((read->sub_parameters[0].part_sizes == shape_type{4, 2, 2}));
  BOOST_TEST((read->sub_parameters[0].view == shape_type{0, -1}));
  BOOST_TEST(read->sub_parameters[1].parts == 2U);
  BOOST_TEST(read->sub_parameters[1].dimension == 1U);
  BOOST_TEST((read->shard_widths.at("^qkv$") == std::vector<shape_type>{{2, 2}, {1, 1}, {1, 1}}));
  BOOST_TEST(read->unsupported.at("^odd$") == "why");
  const auto refused = [&](const char* key, torch_value value) {
    check_failed(written(fmt::format("{}.pt", key).c_str(), torch_value::dict().set(key, std::move(value))),
                 core::error_kind::bad_input, key);
  };
  refused("tp_replicated_parameter_patterns", "text");
  refused("parameter_with_sub_params", list({torch_value::dict()}));
  refused("sub_param_shard_widths", torch_value::dict().set("a", 3));
  refused("original_vocab_size", -1);
  refused("padded_vocab_size", "text");
  refused("pipeline_replicated_parameter_patterns", list({1}));
}

BOOST_AUTO_TEST_CASE(a_jobs_own_cut_is_the_plainest_rule_with_its_widths) {
  using core::tp_style;
  BOOST_TEST((rule_of({}) == cut_rule{}));
  BOOST_TEST((rule_of({tp_style::row, 0, {{4, 4}}}) == cut_rule{.kind = cut_kind::along}));
  BOOST_TEST((rule_of({tp_style::column, 1, {{4, 4}, {4, 4}, {4, 4}}}) ==
              cut_rule{.kind = cut_kind::along, .dimension = 1, .sub_parameters = 3}));
  BOOST_TEST(
      (rule_of({tp_style::column, 0, {{4, 4}, {2, 2}}}) == cut_rule{.kind = cut_kind::along, .part_sizes = {8, 4}}));
  BOOST_TEST((rule_of({tp_style::column, 0, {{8, 4, 0}, {2, 1, 0}}}) ==
              cut_rule{.kind = cut_kind::along, .widths = {{8, 4, 0}, {2, 1, 0}}}));
  BOOST_TEST(
      (rule_of({tp_style::vocabulary, 0, {{5, 4, 4}}}) == cut_rule{.kind = cut_kind::along, .original_rows = 13}));
  // Both descriptions of a cut must assign equal elements to equal ranks.
  for (const core::parameter_cut& cut : {core::parameter_cut{tp_style::column, 1, {{8, 4, 0}, {2, 1, 3}}},
                                         {tp_style::column, 1, {{6, 6, 6}}},
                                         {tp_style::row, 0, {{2, 1, 1}}}}) {
    const std::vector<int64_t> shape{4, 18};
    const auto split = check_ok(cut_to_split("w", rule_of(cut), shape, 3));
    for (uint32_t r = 0; r < 3; ++r) {
      BOOST_TEST_INFO_SCOPE("r " << r);
      const core::tp_slices own(shape, cut, r, core::tp_room::own);
      BOOST_TEST(core::numel_of(split->slices[r]) == own.elements());
      std::vector<core::tp_run> got;
      for (const auto& run : split->runs)
        if (run.rank == r) got.push_back({run.slice_first, run.whole_first, run.count});
      BOOST_TEST((core::common_to(got, own.runs(0, own.elements())) ==
                  (own.elements() == 0 ? std::vector<core::tp_common>{}
                                       : std::vector<core::tp_common>{{0, 0, own.elements()}})));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_source_of_shares_is_cut_like_a_whole_one) {
  const auto rules = megatron_rules_of(qkv_version::v0);
  tensor_source whole;
  whole.folder = "m";
  whole.files = {{"data", 4000}};
  whole.tensors = {entry("mlp.dense_4h_to_h.weight", {3, 4}, 100), entry("norm.weight", {5}, 200)};
  auto& t = whole.tensors[0];
  t.cut = {core::tp_style::row, 1, {{3, 1}}};
  t.pieces = {{0, 0, 9, 100, {}, 0}, {0, 0, 3, 136, {}, 1}};
  check_ok(complete(whole));
  const auto cut = check_ok(split_ranks(whole, 2, rules));
  // The second rank has columns 2 and 3: column 2 is the last of the first part, and column 3 is the second part.
  const auto& second = cut->ranks[1].tensors[0];
  BOOST_TEST((second.shape == std::vector<int64_t>{3, 2}));
  BOOST_TEST(!second.cut.cuts());
  const std::vector<piece> wanted{{0, 0, 1, 108, {}}, {0, 1, 1, 136, {}}, {0, 2, 1, 120, {}},
                                  {0, 3, 1, 140, {}}, {0, 4, 1, 132, {}}, {0, 5, 1, 144, {}}};
  BOOST_TEST((second.pieces == wanted));
  const auto one = split_ranks(whole, 1, rules);  // with one rank nothing is cut, so the result equals the source
  check_ok(one);
  BOOST_TEST((one->ranks[0].tensors == whole.tensors));
}

BOOST_AUTO_TEST_CASE(sources_of_ranks_are_joined_and_cut_without_reading) {
  const auto rules = megatron_rules_of(qkv_version::v0);
  tensor_source whole;
  whole.folder = "m";
  whole.files = {{"data", 4000}, {"zeros", 4000}};
  whole.tensors = {entry("attention.query_key_value.weight", {12, 2}, 0),
                   entry("mlp.dense_4h_to_h.weight", {3, 4}, 100), entry("norm.weight", {5}, 200)};
  whole.tensors.push_back(whole.tensors[1]);
  whole.tensors[3].kind = tensor_kind::moment;
  whole.tensors[3].moment = "exp_avg";
  whole.tensors[3].pieces[0].offset_bytes = 2000;
  check_ok(complete(whole));
  for (const uint32_t ranks : {1U, 2U, 4U}) {
    auto cut = check_ok(split_ranks(whole, ranks, rules));
    BOOST_TEST(cut->cut == 3U);
    BOOST_TEST(cut->ranks.size() == ranks);
    const auto back = check_ok(merge_ranks(cut->ranks, rules));
    BOOST_TEST((back->whole.tensors == whole.tensors), ranks << " ranks");
    if (ranks == 1) continue;
    cut->ranks.back().tensors.pop_back();
    check_failed(merge_ranks(cut->ranks, rules), core::error_kind::mismatch, "is not on rank");
  }
}

BOOST_AUTO_TEST_SUITE_END()
