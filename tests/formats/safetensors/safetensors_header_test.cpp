// Tests the rules of a safetensors header.
#include "formats/safetensors/header.hpp"

#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(safetensors_header)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"w":{"dtype":)" + dtype + R"(,"shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_header_gives_its_tensors_and_metadata) {
  const auto h = parse_header(
      R"( {"b":{"shape":[],"data_offsets":[24,28],"dtype":"F32"},"__metadata__":{"format":"pt","é":""},
          "a":{"dtype":"BF16","shape":[3,4],"data_offsets":[0,24]}}   )" +
          1,
      28);
  check_ok(h);
  BOOST_REQUIRE_EQUAL(h->entries.size(), 2U);
  BOOST_TEST(h->entries[0].name == "a");
  BOOST_TEST((h->entries[0].type == core::dtype::bf16));
  BOOST_TEST(h->entries[0].shape == (std::vector<int64_t>{3, 4}), boost::test_tools::per_element());
  BOOST_TEST(h->entries[0].end == 24U);
  BOOST_TEST(h->entries[1].name == "b");
  BOOST_TEST(h->entries[1].shape.empty());
  BOOST_TEST((h->metadata == string_map{{"format", "pt"}, {"é", ""}}));
  check_ok(parse_header("{}", 0));
}

BOOST_AUTO_TEST_CASE(every_dtype_has_the_format_s_name) {
  for (const auto t : {core::dtype::f64, core::dtype::f32, core::dtype::bf16, core::dtype::f16, core::dtype::i64,
                       core::dtype::i32, core::dtype::i16, core::dtype::i8, core::dtype::u8, core::dtype::boolean})
    BOOST_TEST_CONTEXT(core::name_of(t)) BOOST_TEST((safetensors_dtype(safetensors_name(t)) == t));
  BOOST_TEST((safetensors_dtype("BF16") == core::dtype::bf16));
  // No element type of Troupe is fp8; the reader marks such an entry by a flag.
  BOOST_TEST(!safetensors_dtype("F8_E4M3"));
}

BOOST_AUTO_TEST_CASE(anything_but_a_header_is_refused_with_the_reason) {
  const auto refused = [](const std::string& text, const std::string& words, uint64_t data = 4) {
    check_failed(parse_header(text, data), error_kind::bad_input, words);
  };
  refused("", "opens with '{'");
  refused(" {}", "opens with '{'");
  refused("\xEF\xBB\xBF{}", "opens with '{'");
  refused("[]", "opens with '{'");
  refused(std::string("{}\0{}", 5), "opens with '{'");
  refused("{", "JSON is broken");
  refused("{}{}", "JSON is broken");
  refused("{\"\xFF\":1}", "JSON is broken");
  refused(R"({"w":1})", "tensor 'w': an object was wanted, got a number");
  refused(R"({"w":{}})", "one is missing");
  refused(R"({"w":{"dtype":"F32","shape":[1]}})", "one is missing");
  refused(R"({"w":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":1}})", "got the key 'extra'");
  refused(one("\"F33\"", "[1]", "[0,4]"), "the dtype 'F33' is not supported");
  refused(one("32", "[1]", "[0,4]"), "its dtype must be text, got a number");
  refused(one("\"F32\"", "[-1]", "[0,4]"), "its shape must list whole numbers, got a negative number");
  refused(one("\"F32\"", "[1.0]", "[0,4]"), "not an integer");
  refused(one("\"F32\"", "[[1]]", "[0,4]"), "got a list");
  refused(one("\"F32\"", "[18446744073709551616]", "[0,4]"), "too large");
  refused(one("\"F32\"", "[9223372036854775808]", "[0,4]"), "a dimension cannot be");
  refused(one(
              "\"F32\"",
              "[1" +
                  [] {
                    std::string s;
                    for (size_t i = 0; i < max_rank; ++i) s += ",1";
                    return s;
                  }() +
                  "]",
              "[0,4]"),
          "more than 64 dimensions");
  refused(one("\"F32\"", "[1]", "[0]"), "holds 1 numbers, 2 were wanted");
  refused(one("\"F32\"", "[1]", "[0,4,8]"), "must be two whole numbers");
  refused(R"({"__metadata__":{"a":1}})", "holds texts only, got a number", 0);
  refused(R"({"__metadata__":[]})", "__metadata__ must be an object", 0);
}

BOOST_AUTO_TEST_CASE(keys_that_stand_twice_are_refused) {
  const std::string w = R"("w":{"dtype":"F32","shape":[1],"data_offsets":[0,4]})";
  check_failed(parse_header("{" + w + "," + w + "}", 4), error_kind::bad_input, "tensor 'w' appears twice");
  check_failed(parse_header(R"({"w":{"dtype":"F32","dtype":"F32","shape":[1],"data_offsets":[0,4]}})", 4),
               error_kind::bad_input, "the key 'dtype' appears twice");
  check_failed(parse_header(R"({"__metadata__":{},"__metadata__":{}})", 0), error_kind::bad_input, "appears twice");
  check_failed(parse_header(R"({"__metadata__":{"a":"","a":""}})", 0), error_kind::bad_input, "'a' appears twice");
}

BOOST_AUTO_TEST_CASE(offsets_must_cover_the_data_exactly) {
  const auto two = [](const std::string& a, const std::string& b, uint64_t data) {
    return parse_header(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + a +
                            R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + b + "}}",
                        data);
  };
  check_ok(two("[4,8]", "[0,4]", 8));
  check_failed(two("[0,4]", "[2,6]", 8), error_kind::bad_input,
               "tensor 'b' begins at byte 2 inside tensor 'a', which ends at 4");
  check_failed(two("[0,4]", "[0,4]", 8), error_kind::bad_input, "inside tensor");
  check_failed(two("[0,4]", "[5,9]", 9), error_kind::bad_input, "no tensor holds byte 4 of the data");
  check_failed(two("[0,4]", "[4,8]", 9), error_kind::bad_input, "no tensor holds byte 8 of the data");
  check_failed(two("[0,4]", "[4,8]", 7), error_kind::bad_input, "tensor 'b' has data_offsets [4, 8], the file holds 7");
  check_failed(two("[0,4]", "[8,4]", 8), error_kind::bad_input, "data_offsets [8, 4]");
  check_failed(two("[0,4]", "[4,18446744073709551615]", 8), error_kind::bad_input, "has data_offsets");
  check_failed(two("[0,4]", "[4,7]", 7), error_kind::bad_input, "take 4 bytes, but its data_offsets span 3");
}

BOOST_AUTO_TEST_CASE(a_shape_whose_product_overflows_is_refused) {
  for (const char* shape : {"[4294967296,4294967296]", "[9223372036854775807,2]", "[2305843009213693952,8]"})
    check_failed(parse_header(one("\"F32\"", shape, "[0,0]"), 0), error_kind::bad_input,
                 "more elements than a file can hold");
  check_ok(parse_header(one("\"F32\"", "[0,4294967296,4294967296]", "[0,0]"), 0));
}

BOOST_AUTO_TEST_CASE(deep_nesting_ends_at_the_first_wrong_bracket) {
  const std::string deep = "{\"w\":" + std::string(1'000'000, '[');
  check_failed(parse_header(deep, 0), error_kind::bad_input, "an object was wanted, got a list");
}

BOOST_AUTO_TEST_CASE(names_are_shown_on_one_line_and_cut) {
  BOOST_TEST(shown("a\nb\x1b[31m") == "a?b?[31m");
  BOOST_TEST(shown(std::string(500, 'x')) == std::string(120, 'x') + "...");
  BOOST_TEST(shown(std::string(119, 'x') + "\u00e9" + "tail") == std::string(119, 'x') + "...");
}

BOOST_AUTO_TEST_CASE(a_formatted_header_parses_back_and_is_padded) {
  const std::vector<safetensors_entry> entries{{"a\"\\\n\u00e9", core::dtype::f16, {2, 0}, 0, 0},
                                               {"b", core::dtype::i64, {}, 0, 8}};
  const auto text = check_ok(format_header(entries, {{"k\"", "v"}}));
  BOOST_TEST(text->size() % 8 == 0U);
  uint64_t length = 0;
  std::memcpy(&length, text->data(), 8);
  BOOST_TEST(length == text->size() - 8);
  const auto back = check_ok(parse_header(text->substr(8), 8));
  BOOST_TEST(back->entries[0].name == entries[0].name);
  BOOST_TEST((back->metadata == string_map{{"k\"", "v"}}));
  check_failed(format_header({{"\xFF", core::dtype::f16, {}, 0, 2}}, {}), error_kind::bad_input, "not UTF-8");
}

BOOST_AUTO_TEST_SUITE_END()
