// Tests files of torch.save in the layouts that programs write (tests/peer/make_torch_contents_fixtures.py): which
// tensors belong to the model, the remarks about the others, and tensors whose elements are stored in another order.
#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstring>
#include <numeric>

#include "checkpoint/convert/open_source.hpp"
#include "formats/compressed/source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/report/verify.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/strided_view.hpp"
#include "formats/source/tensor_source.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(torch_contents)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/torch_contents";

}  // namespace

BOOST_AUTO_TEST_CASE(the_models_tensors_are_found_and_what_is_left_out_is_said) {
  const std::vector<std::pair<std::string, std::string>> files{
      {"tutorial", "'optimizer_state_dict', which holds 1 tensor; the tensor 'loss'"},
      {"one_name", "the tensor 'ema'"},
      {"two_models", "'ema_model', which holds 2 tensors"},
      {"inside", "'enc', which holds 1 tensor"},
      {"twice", ""},
      {"number", "the tensor of the key 1"},
      {"other_kinds",
       "'q', a tensor by torch._utils._rebuild_qtensor; 's', a tensor by torch._utils._rebuild_sparse_tensor; 'm', a "
       "tensor by torch._utils._rebuild_meta_tensor_no_storage; 'n', a tensor by numpy._core.multiarray._reconstruct"}};
  for (const auto& [name, left_out] : files) BOOST_TEST_CONTEXT(name) {
      const auto got = check_ok(open_source(fixtures / (name + ".pt")));
      BOOST_REQUIRE(got->tensors.size() == 2U);
      BOOST_TEST(got->tensors[0].name == "b");
      BOOST_TEST(got->tensors[1].name == "w");
      std::vector<std::string> wanted;
      if (name == "one_name") wanted.emplace_back("the model is the dictionary 'net', the only one with tensors");
      if (!left_out.empty()) wanted.push_back(std::string(left_out_mark) + left_out);
      BOOST_TEST(got->remarks == wanted, boost::test_tools::per_element());
    }
}

BOOST_AUTO_TEST_CASE(a_file_by_itself_is_shown_without_the_names_in_its_neighbours) {
  const auto got = check_ok(open_source(fixtures / "tutorial.pt"));
  BOOST_TEST(unknown_names_in(*got).empty());
  const auto other = check_ok(open_source(fixtures / "other_kinds.pt"));
  BOOST_TEST(unknown_names_in(*other).size() == 1U);
}

BOOST_AUTO_TEST_CASE(two_dictionaries_of_tensors_without_a_known_name_are_refused) {
  check_failed(open_source(fixtures / "unclear.pt"), error_kind::bad_input,
               "several dictionaries of tensors, 'first', 'second'");
}

BOOST_AUTO_TEST_CASE(an_average_beside_an_empty_model_is_refused_and_one_alone_is_named) {
  const scratch_folder at;
  const std::vector<std::byte> zeros(8);
  const std::vector<torch_storage> storages{{core::dtype::f32, 2, zeros, {}}};
  const auto average = torch_value::ordered_dict().set("w", torch_view{0, 0, {2}});
  auto root = torch_value::dict().set("ema_state_dict", average);
  check_ok(write_torch_archive(at / "alone.pt", root, storages));
  const auto alone = check_ok(open_source(at / "alone.pt"));
  BOOST_TEST(alone->remarks ==
                 std::vector<std::string>{"the model is the dictionary 'ema_state_dict', the only one with tensors"},
             boost::test_tools::per_element());
  root.set("state_dict", torch_value::dict());
  check_ok(write_torch_archive(at / "both.pt", root, storages));
  check_failed(open_source(at / "both.pt"), error_kind::bad_input,
               "an empty dictionary 'state_dict', and the tensors of 'ema_state_dict', which may be an average");
}

BOOST_AUTO_TEST_CASE(a_tensor_with_torchs_negative_bit_is_refused_by_name) {
  check_failed(open_source(fixtures / "negative.pt"), error_kind::bad_input, "a tensor has torch's bit 'neg'");
}

BOOST_AUTO_TEST_CASE(tensors_of_types_that_are_not_read_are_left_out_by_name) {
  for (const auto& [name, type] : {std::pair("u16.pt", "uint16"), std::pair("c64.pt", "complex64")}) {
    const auto got = check_ok(open_source(fixtures / name));
    BOOST_TEST(got->tensors.size() == 2U);
    BOOST_REQUIRE(got->unread.size() == 1U);
    BOOST_TEST(got->unread[0].type == type);
    BOOST_TEST(got->remarks.back().starts_with("left out: 'x' of " + std::string(type) + ": only tensors of float64, "),
               got->remarks.back());
    BOOST_TEST(unknown_names_in(*got).empty());
  }
}

BOOST_AUTO_TEST_CASE(linear_layers_of_nanogpts_are_turned_to_the_order_of_hugging_faces) {
  const scratch_folder at;
  const auto numbers = [](size_t count) {
    std::vector<float> out(count);
    std::iota(out.begin(), out.end(), 0.F);
    const auto bytes = std::as_bytes(std::span(out));
    return std::vector<std::byte>(bytes.begin(), bytes.end());
  };
  const std::vector<std::pair<std::string, std::vector<int64_t>>> stored{{"transformer.wte.weight", {5, 2}},
                                                                         {"transformer.h.0.attn.c_attn.weight", {6, 2}},
                                                                         {"transformer.h.0.attn.c_proj.weight", {2, 2}},
                                                                         {"transformer.h.0.mlp.c_fc.weight", {8, 2}}};
  std::vector<std::vector<std::byte>> bytes;
  std::vector<torch_storage> storages;
  bytes.reserve(stored.size());
  auto model = torch_value::ordered_dict();
  for (uint32_t i = 0; i < stored.size(); ++i) {
    const auto& shape = stored[i].second;
    const auto count = static_cast<uint64_t>(shape[0] * shape[1]);
    bytes.push_back(numbers(count));
    storages.push_back({core::dtype::f32, count, bytes.back(), {}});
    model.set("_orig_mod." + stored[i].first, torch_view{i, 0, shape});
  }
  for (const bool is_nanogpts : {true, false}) {
    BOOST_TEST_INFO_SCOPE("is nanogpts " << is_nanogpts);
    auto root = torch_value::dict().set("model", model);
    root.set(is_nanogpts ? "model_args" : "arguments", torch_value::dict().set("n_embd", int64_t{2}));
    fs::remove(at / "ckpt.pt");
    check_ok(write_torch_archive(at / "ckpt.pt", root, storages));
    const auto s = check_ok(open_source(at / "ckpt.pt"));
    for (size_t i = 0; i < stored.size(); ++i) {
      BOOST_TEST_INFO_SCOPE("i " << i);
      const auto& [name, shape] = stored[i];
      const auto* t = find_tensor(*s, name, tensor_kind::weight);
      BOOST_REQUIRE(t != nullptr);
      const bool is_turned = is_nanogpts && i > 0;
      BOOST_TEST((t->shape == (is_turned ? std::vector<int64_t>{shape[1], shape[0]} : shape)));
      std::vector<float> got(static_cast<size_t>(shape[0] * shape[1]));
      source_reader reader(*s);
      check_ok(reader.read(*t, 0, got.size(), std::as_writable_bytes(std::span(got))));
      BOOST_TEST(got[1] == (is_turned ? static_cast<float>(shape[1]) : 1.F));
    }
    const bool is_said = std::ranges::any_of(s->remarks, [](const std::string& line) {
      return line.starts_with("changed: 3 linear layers of nanoGPT are transposed from (out, in) to (in, out)");
    });
    BOOST_TEST(is_said == is_nanogpts);
  }
}

BOOST_AUTO_TEST_CASE(elements_in_another_order_are_gathered) {
  const auto got = check_ok(open_source(fixtures / "transposed.pt"));
  const auto wanted = check_ok(hugging_face_format.open(fixtures / "transposed.safetensors", {}));
  BOOST_REQUIRE(got->tensors.size() == wanted->tensors.size());
  size_t gathered = 0;
  for (size_t i = 0; i < got->tensors.size(); ++i) {
    BOOST_TEST_INFO_SCOPE("i " << i);
    const auto &a = got->tensors[i], &b = wanted->tensors[i];
    BOOST_TEST((a.name == b.name && a.shape == b.shape && bytes_in(*got, a) == bytes_in(*wanted, b)), shown(a));
    if (got->files[a.pieces.at(0).file].view == nullptr) continue;
    BOOST_TEST(a.pieces.size() == 1U);
    ++gathered;
  }
  BOOST_TEST(gathered >= 4U);
  const auto checked = check_ok(verify_source(real_files(), *got));
  BOOST_TEST(checked->damages == 0U);
}

BOOST_AUTO_TEST_CASE(tensors_of_many_blocks_are_gathered_whatever_their_order) {
  struct view {
    std::vector<int64_t> shape, strides;
    core::dtype type = core::dtype::f32;
  };
  const std::vector<view> views{{{1200, 3001}, {1, 1200}},    // the tensor spans several blocks
                                {{3, 20000}, {1, 60}},        // a read contains few of the tensor's elements
                                {{2100, 900}, {2 * 900, 2}},  // rows have gaps between elements
                                // The elements have no gaps and are one piece.
                                {{40, 1, 30, 50}, {1500, 0, 50, 1}, core::dtype::u8},
                                {{5, 700, 3, 400}, {1, 5, 1400000, 3500}, core::dtype::i16},
                                {{2000, 3, 7}, {7, 0, 1}},                  // rows are repeated (stride 0)
                                {{1300, 1300}, {1, 1}, core::dtype::f64}};  // rows overlap
  for (const auto& v : views) BOOST_TEST_CONTEXT(v.shape.at(0)) {
      const uint64_t width = core::size_of(v.type);
      uint64_t span = 1;
      for (size_t d = 0; d < v.shape.size(); ++d) span += static_cast<uint64_t>((v.shape[d] - 1) * v.strides[d]);
      const uint64_t begin = 24;
      const auto bytes = noise(begin + span * width, 5);
      const scratch_folder at;
      at.write("raw", std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size()));
      tensor_source s;
      s.folder = at.path();
      s.files.push_back({at / "raw", bytes.size()});
      const torch_tensor t{v.type, v.shape, v.strides, {}, begin, core::numel_of(v.shape)};
      tensor_entry entry{"t", tensor_kind::weight, {}, v.type, v.shape, {}};
      strided_views all;
      check_ok(all.add(entry.pieces, s, 0, t));
      BOOST_TEST(entry.pieces.size() == 1U);
      s.tensors.push_back(entry);
      check_ok(complete(s));
      const auto out = bytes_in(s, s.tensors.at(0));
      BOOST_REQUIRE(out.size() == t.numel * width);
      std::vector<int64_t> index(v.shape.size(), 0);
      bool same = true;
      for (uint64_t i = 0; i < t.numel; ++i) {
        uint64_t from = 0;
        for (size_t d = 0; d < index.size(); ++d) from += static_cast<uint64_t>(index[d] * v.strides[d]);
        same = same && std::memcmp(&out[i * width], &bytes[begin + from * width], width) == 0;
        for (size_t d = index.size(); d > 0 && ++index[d - 1] == v.shape[d - 1]; --d) index[d - 1] = 0;
      }
      BOOST_TEST(same);
      std::vector<piece> again;
      check_ok(all.add(again, s, 0, t));
      BOOST_TEST((again == entry.pieces && s.files.size() <= 2U));  // adding a tensor again must not add a file
    }
}

BOOST_AUTO_TEST_CASE(a_tensor_that_repeats_its_elements_beyond_any_use_is_refused) {
  tensor_source s;
  s.files.push_back({"x", 8});
  std::vector<piece> out;
  strided_views all;
  check_failed(all.add(out, s, 0, {core::dtype::f32, {5'000'000, 3}, {0, 0}, {}, 0, 15'000'000}), error_kind::limit,
               "repeats 1 elements of its file more than 4000000 times");
}

BOOST_AUTO_TEST_SUITE_END()
