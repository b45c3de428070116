# Rewrites a .cu for the host's compiler: cmake -DFROM=file.cu -DNAME=path-in-messages -DTO=file.cpp -P launches.cmake
#   kernel<types><<<grid, block, bytes, stream>>>(...)   a call of machine.hpp's launched_as
#   extern __shared__ type name[];                       a pointer to the launch's dynamic shared memory
# Lines keep their numbers. A launch of another shape is an error here: the kernel is a name, with template arguments that
# hold no `<`, and what stands between `<<<` and `>>>` holds no `>`.
file(READ ${FROM} text)
set(kernel "([A-Za-z_][A-Za-z0-9_]*(<[^<>();]*>)?)")
string(REGEX REPLACE "${kernel}([ \n]*)<<<([^>;]*)>>>\\("
  "\\3::troupe::cuda_on_host::launched_as({\\4}, [&](const auto&... arguments) { \\1(arguments...); })(" text "${text}")
string(REGEX REPLACE "extern __shared__ ([A-Za-z_][A-Za-z0-9_: ]*[A-Za-z0-9_]) ([A-Za-z_][A-Za-z0-9_]*)\\[\\];"
  "auto* const \\2 = reinterpret_cast<\\1*>(::troupe::cuda_on_host::dynamic_shared());" text "${text}")
foreach(left "<<<" "extern __shared__")
  string(FIND "${text}" "${left}" place)
  if(NOT place EQUAL -1)
    string(SUBSTRING "${text}" ${place} 80 where)
    message(FATAL_ERROR "${NAME}: launches.cmake cannot rewrite `${where}`")
  endif()
endforeach()
file(WRITE ${TO} "#line 1 \"${NAME}\"\n${text}")
