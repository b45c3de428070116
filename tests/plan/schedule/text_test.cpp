#include "plan/schedule/text.hpp"

#include "plan/schedule/proof.hpp"
#include "plan/schedule/transfers.hpp"
#include "tests/check_ok.hpp"
#include "tests/plan/schedule/tables.hpp"

BOOST_AUTO_TEST_SUITE(text)

using namespace troupe::plan;
using troupe::tests::check_ok;

namespace {

std::string why(const std::string& csv, const table_size& wanted = {}) {
  const auto t = read_table(csv, "a.csv", wanted);
  return t ? std::string() : t.error().text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_written_is_read_back) {
  for (const auto& s : named_schedules())
    for (uint32_t p = 1; p <= 4; ++p)
      for (uint32_t m = 1; m <= 9; m += 4) {
        BOOST_TEST_INFO_SCOPE("m " << m);
        BOOST_TEST_INFO_SCOPE("p " << p);
        const auto t = *make_table(s, {p, 2, m});
        for (const auto& one : {t, with_transfers(t), with_whole_backwards(t)}) {
          const auto back = check_ok(read_table(write_table(one), "a.csv", {p, 2 * p, m}));
          BOOST_TEST((*back == one));
        }
      }
}

BOOST_AUTO_TEST_CASE(idle_cells_blanks_and_both_ends_of_lines_are_read) {
  const auto t = check_ok(read_table("0F0, ,0B0,\r\n,1F0,\"1B0\"\r\n\r\n", "a.csv"));
  BOOST_TEST(write_table(*t) == "0F0,0B0\n1F0,1B0\n");
}

// In the notation of the ZB1P paper, B is the input part of backward if the schedule also contains a W. The text is one
// rank of two stages.
BOOST_AUTO_TEST_CASE(the_older_notation_is_read) {
  const auto t = check_ok(read_table("0F0,1F0,1BW0,0B0,0W0", "a.csv"));
  BOOST_TEST(write_table(*t) == "0F0,1F0,1B0,0I0,0W0\n");
  BOOST_TEST(why("0F0,1F0,1BW0,1W0,0B0,0W0") == "a.csv:1: 1B0 repeats the work of 1W0 on the same micro-batch");
  BOOST_TEST(why("0F0,1F0,1I0,1W0,0B0,0W0") == "a.csv:1: 0B0 repeats the work of 0W0 on the same micro-batch");
}

BOOST_AUTO_TEST_CASE(what_pytorch_writes_beside_computations_is_read) {
  const std::string csv = "0UNSHARD,0F0,0F1,0B0,0B1,0REDUCE_GRAD,0RESHARD\n";
  const auto t = check_ok(read_table(csv, "a.csv"));
  BOOST_TEST(write_table(*t) == csv);
  BOOST_TEST(why("0UNSHARD,0F0,0RESHARD,0B0") == "a.csv:1: 0B0 uses a stage that is not gathered");
  BOOST_TEST(why("0F0,0REDUCE_GRAD,0B0") == "a.csv:1: 0B0 comes after REDUCE_GRAD of its stage");
  BOOST_TEST(why("0RESHARD,0F0,0B0") == "a.csv:1: 0RESHARD releases a stage that is not gathered");
}

BOOST_AUTO_TEST_CASE(cells_that_are_no_actions_are_refused) {
  for (const char* cell :
       {"0X0", "F0", "0F", "0F0x", "0F-1", "-1F0", "0UNSHARD0", "0FF0", "0F99999999999", "(0F0;0F1)OVERLAP_F_B",
        "(0F0)OVERLAP_F_B", "(0F0;0B0)F", "0OVERLAP_F_B", "(0F0;0I0)OVERLAP_F_B", "(", "()"})
    BOOST_TEST(why(std::string("0F0,0B0\n1F0,") + cell + ",1B0") ==
               std::string("a.csv:2: unknown action '") + cell +
                   "'; wanted one such as 2F0, 2SEND_F0 or (0F5;3B2)OVERLAP_F_B");
}

BOOST_AUTO_TEST_CASE(faults_name_the_line_of_the_rank) {
  BOOST_TEST(why("0F0,0B0\n1F0,1F0,1B0") == "a.csv:2: 1F0 occurs twice");
  BOOST_TEST(why("0F0,0B0\n1F0,1B0,0F1") == "a.csv:2: 0F1: stage 0 is on rank 0 too");
  BOOST_TEST(why("0F0,0F1,0B0,0B1\n1F0,1B0,1B1") == "a.csv:2: 1F1 is missing");
  BOOST_TEST(why("0F0,0B0\n1F0,1B0", {2, 2, 2}) == "a.csv:1: 0F1 is missing");
  BOOST_TEST(why("0F0,0B0\n1F0") == "a.csv:2: 1B0 is missing");
  BOOST_TEST(why("0F0,0B0\n2F0,2B0") == "a.csv:1: no rank has stage 1 of 3");
  BOOST_TEST(why("0F0,0B0\n2F0,2B0", {2, 2, 1}) == "a.csv:2: 2F0: unknown stage, there are 2");
  BOOST_TEST(why("0F0,0B0\n1F0,1B0,1F7", {2, 2, 1}) == "a.csv:2: 1F7: unknown micro-batch, there are 1");
  BOOST_TEST(why("0F0,0B0\n1F0,1B0", {3, 3, 1}) == "a.csv:2: it has lines for 2 ranks, the pipeline has 3");
  for (const char* nothing : {"", ",", "\n0F0,0B0"})
    BOOST_TEST_CONTEXT(nothing) BOOST_TEST(why(nothing) == "a.csv:1: wanted a line of actions for each rank, got none");
  BOOST_TEST(why("0F0,0B0\n,\n1F0,1B0") == "a.csv:2: wanted a line of actions for each rank, got none");
  BOOST_TEST(why("0F0,0SEND_F0,0RECV_B0,0B0\n1F0,1B0,1SEND_B0") == "a.csv:2: 1RECV_F0 is missing");
  BOOST_TEST(why("0B0,0F0") == "a.csv:1: deadlock: 0B0 waits for 0F0 of rank 0 after 0B0");
}

BOOST_AUTO_TEST_CASE(numbers_in_a_file_allocate_nothing_beyond_the_limit) {
  BOOST_TEST(why("0F0,0B0\n4294967294F0") ==
             "a.csv:2: 4294967294F0 makes it 4294967295 stages and 1 micro-batches, at most 4194304 are planned");
  BOOST_TEST(why("0F4294967295") ==
             "a.csv:1: 0F4294967295 makes it 1 stages and 4294967296 micro-batches, at most 4194304 are planned");
  BOOST_TEST(why("0F4194303") == "a.csv:1: 0F0 is missing");
}

BOOST_AUTO_TEST_SUITE_END()
