#!/bin/sh
# The first comment of a script is its --help. Each sources this in the project's directory.
case " $* " in
*" --help "* | *" -h "*)
    sed -n '2,/^[^#]/s/^# \{0,1\}//p' "dev/scripts/${0##*/}"
    exit
    ;;
esac
