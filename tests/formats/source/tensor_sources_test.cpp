// Tests the representation that checkpoints of all formats share: its rules, and reads of elements in any floating
// type.
#include "formats/source/tensor_source.hpp"

#include <fmt/format.h>

#include <cmath>
#include <limits>

#include "checkpoint/native/native_source.hpp"
#include "formats/source/element_cast.hpp"
#include "formats/source/scatter_read.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/source/state_dict.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/fakes/file_system.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(tensor_sources)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;

namespace {

/// A file of known fp32 values 0, 1, 2 ... and a tensor of two pieces in it; the second piece is stored first in the
/// file.
struct two_pieces {
  scratch_folder scratch;
  tensor_source source;

  two_pieces() {
    std::vector<float> values(300'000);
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i);
    const auto path = scratch / "values";
    std::ofstream(path, std::ios::binary)
        .write(reinterpret_cast<const char*>(values.data()), static_cast<std::streamsize>(values.size() * 4));
    source.folder = scratch / "";
    source.files = {{path, values.size() * 4}};
    source.tensors = {{"w",
                       tensor_kind::master,
                       "",
                       dtype::f32,
                       {3, 90'000},
                       {{0, 90'000, 180'000, 4, {}}, {0, 0, 90'000, 800'000, {}}}}};
    check_ok(complete(source));
  }
  /// Returns the expected value of element `i`.
  static float value(uint64_t i) { return static_cast<float>(i < 90'000 ? 200'000 + i : 1 + i - 90'000); }
};

template <class T>
std::vector<T> cast_one(dtype from, auto value, dtype to) {
  std::vector<T> out(1);
  cast_elements(from, reinterpret_cast<const std::byte*>(&value), to, reinterpret_cast<std::byte*>(out.data()), 1);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(elements_come_from_their_pieces_in_their_own_type_and_in_others) {
  two_pieces t;
  source_reader reader(t.source);
  const auto& entry = t.source.tensors[0];
  std::vector<float> same(1'000);
  check_ok(reader.read(entry, 89'500, 1'000, std::as_writable_bytes(std::span(same))));
  std::vector<double> wide(270'000);  // the tensor has more elements than a block
  check_ok(reader.read_as(dtype::f64, entry, 0, 270'000, std::as_writable_bytes(std::span(wide))));
  bool right = true;
  for (uint64_t i = 0; i < 1'000; ++i) right = right && same[i] == two_pieces::value(89'500 + i);
  for (uint64_t i = 0; i < 270'000; ++i) right = right && wide[i] == static_cast<double>(two_pieces::value(i));
  BOOST_TEST(right);
  check_failed(reader.read(entry, 269'999, 2, std::as_writable_bytes(std::span(same))), error_kind::bug, "'w'");
  check_failed(reader.read_as(dtype::i64, entry, 0, 1, std::as_writable_bytes(std::span(wide))), error_kind::mismatch,
               "fp32 cannot be converted to int64");
  std::filesystem::resize_file(t.source.files[0].path, 100);
  source_reader late(t.source);
  check_failed(late.read(entry, 0, 1, std::as_writable_bytes(std::span(same))), error_kind::io, "has 100 now");
}

BOOST_AUTO_TEST_CASE(many_files_are_read_with_few_open) {
  scratch_folder scratch;
  tensor_source s;
  tensor_entry w{"w", tensor_kind::weight, "", dtype::u8, {max_open_source_files + 40}, {}};
  for (uint32_t i = 0; i < max_open_source_files + 40; ++i) {
    const auto path = scratch / fmt::to_string(i);
    std::ofstream(path) << static_cast<char>(i);
    s.files.push_back({path, 1});
    w.pieces.push_back({i, i, 1, 0, {}});
  }
  s.tensors = {w};
  check_ok(complete(s));
  source_reader reader(s);
  std::vector<std::byte> out(s.files.size());
  check_ok(reader.read(s.tensors[0], 0, out.size(), out));
  check_ok(reader.read(s.tensors[0], 0, out.size(), out));
  for (size_t i = 0; i < out.size(); ++i) BOOST_TEST(std::to_integer<size_t>(out[i]) == i % 256);
}

BOOST_AUTO_TEST_CASE(pieces_that_do_not_cover_their_shape_are_refused_by_name) {
  two_pieces t;
  const auto refused = [&](auto change, const std::string& words) {
    auto s = t.source;
    change(s);
    check_failed(complete(s), error_kind::bad_input, words);
  };
  refused([](auto& s) { s.tensors[0].shape = {int64_t{1} << 33, int64_t{1} << 33}; }, "'w' (master)");
  refused([](auto& s) { s.tensors[0].shape = {-3, -90'000}; }, "more elements than a file can hold");
  refused([](auto& s) { s.tensors[0].pieces.pop_back(); }, "no piece holds its elements 90000 to 269999");
  refused([](auto& s) { s.tensors[0].pieces[1].offset_bytes = 600'000; }, "reach beyond the end of");
  refused([](auto& s) { s.tensors[0].pieces[1].file = 1; }, "file number 1 does not exist");
  refused([](auto& s) { s.tensors.push_back(s.tensors[0]); }, "appears twice");
  refused([](auto& s) { s.tied = {{"head", "wte"}}; }, "'head' is tied to 'wte'");
}

BOOST_AUTO_TEST_CASE(names_that_are_not_utf8_are_refused) {
  const auto refused = [](const auto& spoil) {
    two_pieces t;
    spoil(t.source);
    check_failed(complete(t.source), core::error_kind::bad_input, "is not UTF-8");
  };
  refused([](tensor_source& s) { s.tensors[0].name = "w\xFF"; });
  refused([](tensor_source& s) { s.tensors[0].moment = "\xC3"; });
  refused([](tensor_source& s) { s.tied = {{"\xED\xA0\x80", "w"}}; });
  refused([](tensor_source& s) { s.parameter_order = {"w", "\x80w"}; });
  two_pieces t;
  t.source.tensors[0].name = "gr\xC3\xBC\xC3\x9F";
  check_ok(complete(t.source));
}

BOOST_AUTO_TEST_CASE(many_targets_of_one_tensor_take_their_elements_from_one_reading) {
  two_pieces t;
  std::vector<float> all(270'000), part(100'000);
  std::vector<double> wide(5'000);
  const auto at = [](auto& v) { return reinterpret_cast<std::byte*>(v.data()); };
  const std::vector<scattered_tensor> wanted{{&t.source.tensors[0],
                                              {{0, 270'000, dtype::f32, at(all)},
                                               {50'000, 100'000, dtype::f32, at(part)},
                                               {265'000, 5'000, dtype::f64, at(wide)}}}};
  const auto did = check_ok(read_scattered(real_files(), t.source, wanted));
  BOOST_TEST(did->bytes == 270'000U * 4);
  bool right = true;
  for (uint64_t i = 0; i < all.size(); ++i) right = right && all[i] == two_pieces::value(i);
  for (uint64_t i = 0; i < part.size(); ++i) right = right && part[i] == two_pieces::value(50'000 + i);
  for (uint64_t i = 0; i < wide.size(); ++i) right = right && wide[i] == double{two_pieces::value(265'000 + i)};
  BOOST_TEST(right);
  const std::vector<scattered_tensor> some{{&t.source.tensors[0], {{89'999, 2, dtype::f32, at(all)}}}};
  check_ok(read_scattered(real_files(), t.source, some));
  BOOST_TEST(all[0] == two_pieces::value(89'999));
  BOOST_TEST(all[1] == two_pieces::value(90'000));
  const std::vector<scattered_tensor> beyond{{&t.source.tensors[0], {{269'999, 2, dtype::f32, at(all)}}}};
  check_failed(read_scattered(real_files(), t.source, beyond), error_kind::bug, "'w'");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_of_ours_is_a_source_with_the_order_of_its_parameters) {
  fake_files files;
  manifest m;
  m.run.parameter_order = {"h.0.weight", "h.0.bias"};
  const auto tensors = sample_tensors(1);
  const auto folder = check_ok(save_sample(files, "/run", 4, tensors, 3, m));
  const auto from = check_ok(open_checkpoint(files, *folder));
  auto source = source_of(*from);
  check_ok(complete(source));
  BOOST_TEST(source.parameter_order == m.run.parameter_order);
  source_reader reader(source, files);
  for (const auto& t : tensors) {
    const auto* found = find_tensor(source, t.entry.name, t.entry.kind, t.entry.moment);
    BOOST_TEST_REQUIRE(found != nullptr);
    std::vector<std::byte> out(t.data.size());
    check_ok(reader.read(*found, 0, core::numel_of(found->shape), out));
    BOOST_TEST(same_bytes(out, t.data));
  }
}

BOOST_AUTO_TEST_CASE(every_16_bit_value_survives_the_way_to_wider_types_and_back) {
  for (const auto type : {dtype::bf16, dtype::f16})
    for (const auto wide : {dtype::f32, dtype::f64}) {
      size_t changed = 0;
      for (uint32_t bits = 0; bits < 65'536; ++bits) {
        std::byte in[2], there[8], back[2];
        std::memcpy(in, &bits, 2);
        cast_elements(type, in, wide, there, 1);
        cast_elements(wide, there, type, back, 1);
        uint16_t got;
        std::memcpy(&got, back, 2);
        const uint32_t infinity = type == dtype::bf16 ? 0x7F80U : 0x7C00U, quiet = type == dtype::bf16 ? 0x40U : 0x200U;
        const bool nan = (bits & 0x7FFFU) > infinity;
        changed += got != (nan ? bits | quiet : bits);
      }
      BOOST_TEST(changed == 0U);
    }
}

BOOST_AUTO_TEST_CASE(narrowing_rounds_once_to_nearest_even) {
  const auto bf16_of = [](double v) { return cast_one<uint16_t>(dtype::f64, v, dtype::bf16)[0]; };
  const auto f16_of = [](float v) { return cast_one<uint16_t>(dtype::f32, v, dtype::f16)[0]; };
  // The value is halfway between two bf16 numbers and is rounded to the even one.
  BOOST_TEST(bf16_of(1.0 + 0x1p-8) == 0x3F80);
  BOOST_TEST(bf16_of(1.0 + 0x1p-8 + 0x1p-40) == 0x3F81);  // rounding to fp32 first would lose the last binary digit
  BOOST_TEST(bf16_of(-(1.0 + 3 * 0x1p-8)) == 0xBF82);
  BOOST_TEST(f16_of(65'519.0F) == 0x7BFF);
  BOOST_TEST(f16_of(65'520.0F) == 0x7C00);
  BOOST_TEST(f16_of(0x1p-25F) == 0x0000);
  BOOST_TEST(f16_of(0x1.8p-25F) == 0x0001);
  BOOST_TEST(f16_of(1.0F + 0x1p-11F) == 0x3C00);
  BOOST_TEST(f16_of(1.0F + 3 * 0x1p-11F) == 0x3C02);
  BOOST_TEST(cast_one<float>(dtype::f64, 1e300, dtype::f32)[0] == std::numeric_limits<float>::infinity());
}

BOOST_AUTO_TEST_CASE(weights_beyond_any_memory_are_an_error_and_no_exception) {
  tensor_source huge;
  huge.folder = "huge";
  huge.tensors.push_back({"w", tensor_kind::weight, "", dtype::f32, {int64_t{1} << 61}, {}});
  check_failed(load_state_dict(huge), error_kind::limit,
               "'huge': 9223372036854775808 bytes of weights as fp32: not enough memory");
}

BOOST_AUTO_TEST_SUITE_END()
