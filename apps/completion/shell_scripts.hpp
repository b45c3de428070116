// Owns the scripts with which shells ask the program for completions. The scripts contain no command and no option
// names.
#pragma once

#include <string_view>

namespace troupe::apps {

inline constexpr std::string_view bash_script = R"(# bash completion of troupe; made by `troupe completion bash`.
_troupe() {
  local line=${COMP_LINE:0:COMP_POINT} words answer current begin
  read -a words <<<"$line"
  [[ $line == *[![:space:]] ]] || words+=("")
  current=${words[-1]}
  COMPREPLY=()
  while IFS= read -r answer; do COMPREPLY+=("${answer%%$'\t'*}"); done < \
    <("${words[0]/#\~\//$HOME/}" completion --words "${words[@]:1}" 2>/dev/null)
  if ((${#COMPREPLY[@]} == 1)) && [[ ${COMPREPLY[0]} == *[=./] ]]; then compopt -o nospace; fi
  # Bash replaces what stands behind the last of its word breaks.
  begin=
  if [[ $COMP_WORDBREAKS == *=* && $current == *=* ]]; then begin=${current%"${current##*=}"}; fi
  if [[ $COMP_WORDBREAKS == *:* && ${current#"$begin"} == *:* ]]; then begin=${current%"${current##*:}"}; fi
  local i
  for i in "${!COMPREPLY[@]}"; do
    answer=${COMPREPLY[i]#"$begin"}
    case $answer in *[\ \'\"\\\(\)\&\;\<\>\|\$\`\*\?\[\]\#\!]*) printf -v answer %q "$answer" ;; esac
    COMPREPLY[i]=$answer
  done
}
complete -o nosort -F _troupe troupe 2>/dev/null || complete -F _troupe troupe
)";

inline constexpr std::string_view zsh_script = R"(#compdef troupe
# zsh completion of troupe; made by `troupe completion zsh`.
_troupe() {
  local -a typed open closed open_shown closed_shown
  local answer text shown
  typed=("${(@Q)words[2,CURRENT]}")
  while IFS= read -r answer; do
    text=${answer%%$'\t'*}
    shown=$text
    [[ $answer == *$'\t'?* ]] && shown="$text  -- ${answer#*$'\t'}"
    if [[ $text == *[=./] ]]; then open+=("$text"); open_shown+=("$shown")
    else closed+=("$text"); closed_shown+=("$shown"); fi
  done < <(${~${(Q)words[1]}} completion --words "${typed[@]}" 2>/dev/null)
  local -i added=1
  (($#open)) && compadd -l -S '' -d open_shown -a open && added=0
  (($#closed)) && compadd -l -d closed_shown -a closed && added=0
  return added
}
if [[ ${funcstack[1]} == _troupe ]]; then _troupe "$@"; else compdef _troupe troupe; fi
)";

inline constexpr std::string_view fish_script = R"(# fish completion of troupe; made by `troupe completion fish`.
function __troupe_suggest
  set -l typed (commandline -opc)
  set -l last (commandline -ct)
  command $typed[1] completion --words $typed[2..-1] "$last" 2>/dev/null
end
complete -c troupe -f -a '(__troupe_suggest)'
)";

}  // namespace troupe::apps
