// Tests that every difference between members' requests, and the end of any member, is reported to all members at once,
// on every backend.
#include <fmt/format.h>

#include <boost/mpl/list.hpp>
#include <boost/test/unit_test.hpp>

#include <functional>

#include "tests/fabric/company.hpp"
#include "tests/fabric/shared_company.hpp"
#include "tests/fabric/wire_company.hpp"

BOOST_AUTO_TEST_SUITE(failures)

namespace {

using namespace troupe;
using namespace troupe::tests;
using core::dtype;
using fabric::operation;
using fabric::request;
using backends = boost::mpl::list<in_process_on_one_thread, modelled, in_process_on_threads, shared_on_one_thread,
                                  shared_in_processes, wire_on_one_thread<a_machine_each>,
                                  wire_on_one_thread<two_machines>, wire_on_one_thread<two_machines_of_processes>,
                                  wire_on_one_thread<uneven_machines>, wire_on_threads<uneven_machines>>;

constexpr uint64_t elements = 40'000;

/// The scripts of three members that repeatedly all-reduce one list of pieces.
class company {
 public:
  explicit company(size_t operations) : memory_(3, shared_vector<double>(elements)), parts_(3) {
    for (uint32_t rank = 0; rank < 3; ++rank)
      for (size_t i = 0; i < operations; ++i) {
        BOOST_TEST_INFO_SCOPE("rank " << rank);
        request r;
        r.id = {.step = 4, .communicator = 9, .sequence = i, .what = fmt::format("reduce bucket {}", i)};
        r.op = operation::all_reduce;
        r.pieces = pieces_;
        r.input = reinterpret_cast<const std::byte*>(memory_[rank].data());
        r.output = reinterpret_cast<std::byte*>(memory_[rank].data());
        parts_[rank].requests.push_back(r);
      }
  }

  std::vector<fabric::piece> pieces_{{0, 0, 0, 10'000}, {1, 10'000, 10'000, 10'000}, {2, 20'000, 20'000, 20'000}};
  std::vector<fabric::piece> other_pieces_ = pieces_;
  std::vector<shared_vector<double>> memory_;
  std::vector<part> parts_;
};

bool contains(const std::string& text, const std::string& wanted) { return text.find(wanted) != std::string::npos; }

/// Checks that every member ended with an equal error of `kind` that contains all of `words`.
void check_all_failed(const std::vector<ending>& ends, error_kind kind, const std::vector<std::string>& words) {
  for (const ending& e : ends) {
    BOOST_REQUIRE(e.has_value());
    BOOST_TEST(static_cast<int>(e->kind) == static_cast<int>(kind), e->text);
    BOOST_TEST(e->text == ends[0]->text);
    for (const std::string& word : words) BOOST_TEST(contains(e->text, word), "'" << word << "' in: " << e->text);
  }
}

struct difference {
  std::function<void(company&, request&)> make;
  std::string words;
};

const std::vector<difference>& differences() {
  static const std::vector<difference> all{
      {[](company&, request& r) { r.id.communicator = 8; }, "communicator: wanted"},
      {[](company&, request& r) { r.id.step = 5; }, "step: wanted"},
      {[](company&, request& r) { r.id.what = "gather block 2"; }, "instruction: wanted"},
      {[](company&, request& r) { r.op = operation::reduce_scatter; }, "operation: wanted"},
      {[](company&, request& r) { r.input_type = r.output_type = dtype::f16; }, "input dtype: wanted"},
      {[](company&, request& r) { r.communication = dtype::bf16; }, "communication dtype: wanted"},
      {[](company&, request& r) { r.output_type = dtype::bf16; }, "output dtype: wanted"},
      {[](company&, request& r) { r.input_scale = 0.5F; }, "input scale: wanted"},
      {[](company&, request& r) { r.accumulate = true; }, "accumulate: wanted"},
      {[](company& c, request& r) { r.pieces = std::span(c.pieces_).first(2); }, "number of pieces: wanted"},
      {[](company& c, request& r) {
         c.other_pieces_[0].owner = 1;
         r.pieces = c.other_pieces_;
       },
       "piece 0: wanted"},
      {[](company& c, request& r) {
         c.other_pieces_[1].from = 11'000;
         r.pieces = c.other_pieces_;
       },
       "piece 1: wanted"},
      {[](company& c, request& r) {
         c.other_pieces_[2].to = 20'001;
         r.pieces = c.other_pieces_;
       },
       "piece 2: wanted"},
      {[](company& c, request& r) {
         c.other_pieces_[2].count = 1'000;
         r.pieces = c.other_pieces_;
       },
       "piece 2: wanted"},
  };
  return all;
}

}  // namespace

BOOST_AUTO_TEST_CASE_TEMPLATE(every_difference_between_members_is_named_to_all, backend, backends) {
  for (const difference& d : differences())
    for (const uint32_t odd : {0U, 2U}) {
      company c(4);
      request& r = c.parts_[odd].requests[2];
      // The differing request writes to separate memory, so that it is valid by itself.
      shared_vector<double> elsewhere(elements + 1);
      r.output = reinterpret_cast<std::byte*>(elsewhere.data());
      d.make(c, r);
      const auto ends = backend::run(c.parts_);
      check_all_failed(ends, error_kind::mismatch,
                       {d.words, ", got ", "sequence 2", fmt::format("rank {} posted", odd), "reduce bucket 2"});
    }
}

BOOST_AUTO_TEST_CASE(a_mismatch_names_both_members_and_their_operations) {
  company c(1);
  c.parts_[1].requests[0].op = operation::reduce_scatter;
  c.parts_[1].requests[0].id.what = "reduce bucket 7";
  in_process_stage stage(3);
  const auto first = stage.join(0);
  const auto second = stage.join(1);
  BOOST_REQUIRE(first->post(c.parts_[0].requests[0]));
  const auto posted = second->post(c.parts_[1].requests[0]);
  BOOST_REQUIRE(!posted);
  BOOST_TEST(posted.error().text ==
             "rank 1 posted reduce_scatter 'reduce bucket 7' (communicator 9, step 4, sequence 0) where rank 0 posted "
             "all_reduce 'reduce bucket 0' (communicator 9, step 4, sequence 0); "
             "instruction: wanted reduce bucket 0, got reduce bucket 7");
}

BOOST_AUTO_TEST_CASE_TEMPLATE(equal_pieces_at_another_address_are_no_difference, backend, backends) {
  company c(3);
  for (request& r : c.parts_[1].requests) r.pieces = c.other_pieces_;
  for (const ending& e : backend::run(c.parts_)) BOOST_TEST(!e.has_value(), (e ? e->text : ""));
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_gap_in_the_sequence_fails_all, backend, backends) {
  company c(4);
  c.parts_[1].requests.erase(c.parts_[1].requests.begin() + 2);
  check_all_failed(backend::run(c.parts_), error_kind::mismatch,
                   {"rank 1 posted", "out of turn", "wanted sequence 2, got 3", "reduce bucket 3"});
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_abort_reaches_all_with_its_reason, backend, backends) {
  for (const size_t window : {1, 3}) {
    company c(6);
    for (part& p : c.parts_) p.window = window;
    c.parts_[2].aborts_at = 4;
    check_all_failed(backend::run(c.parts_), error_kind::stopped, {"rank 2 stops"});
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(a_lost_member_is_named_to_all_others, backend, backends) {
  for (uint32_t lost = 0; lost < 3; ++lost) {
    BOOST_TEST_INFO_SCOPE("lost " << lost);
    company c(6);
    c.parts_[lost].leaves_at = 3;
    auto ends = backend::run(c.parts_);
    BOOST_TEST(!ends[lost].has_value());
    ends.erase(ends.begin() + lost);
    for (const ending& e : ends) {
      BOOST_REQUIRE(e.has_value());
      BOOST_TEST((e->kind == error_kind::peer_lost));
      BOOST_TEST(contains(e->text, fmt::format("rank {} of 3 ended", lost)), e->text);
    }
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(members_that_end_after_their_last_operation_do_no_harm, backend, backends) {
  for (uint32_t seed = 0; seed < 20; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    company c(3);
    for (const ending& e : backend::run(c.parts_, seed)) BOOST_TEST(!e.has_value(), (e ? e->text : ""));
  }
}

BOOST_AUTO_TEST_CASE_TEMPLATE(an_unsound_request_fails_all_and_names_its_sender, backend, backends) {
  const std::vector<difference> all{
      {[](company& c, request&) { c.pieces_[1].owner = 3; }, "an owner below 3 was wanted, got 3"},
      {[](company& c, request&) { c.pieces_[1].to = uint64_t{1} << 60; }, "below 2^56"},
      {[](company&, request& r) { r.op = operation::barrier; }, "a barrier has no pieces"},
      {[](company&, request& r) { r.op = operation::send_receive; }, "a communicator of 2 members, got 3"},
      {[](company&, request& r) { r.op = operation::broadcast; }, "one root"},
      {[](company&, request& r) { r.op = operation::all_to_all; }, "all_to_all requires a piece of every member"},
      {[](company&, request& r) { r.input_type = dtype::i32; }, "floating dtypes, got int32"},
      {[](company&, request& r) {
         r.op = operation::all_gather;
         r.output_type = dtype::bf16;
       },
       "one dtype is wanted"},
      {[](company&, request& r) {
         r.op = operation::all_gather;
         r.accumulate = true;
       },
       "only reductions"},
      {[](company&, request& r) { r.input = nullptr; }, "an input of 40000 elements was wanted, got none"},
      {[](company&, request& r) { r.output = nullptr; }, "an output of 40000 elements was wanted, got none"},
  };
  for (const difference& d : all) {
    company c(2);
    for (part& p : c.parts_) d.make(c, p.requests[0]);
    const auto ends = backend::run(c.parts_);
    BOOST_REQUIRE(ends[0].has_value());
    check_all_failed(ends, ends[0]->kind, {d.words, " posted ", "sequence 0", "reduce bucket 0"});
  }
}

BOOST_AUTO_TEST_SUITE_END()
