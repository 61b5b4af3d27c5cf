# Writes each cpp block of a document that begins with "// FILE: ..." to folder/FILE.
/^```/ { inside = ($0 == "```cpp"); if (file) close(file); file = ""; next }
inside && !file {
  name = $2
  sub(/:$/, "", name)
  if ($1 != "//" || name !~ /^[a-z_]+\.cc$/) { print FILENAME ":" FNR ": a block without the name of its file" > "/dev/stderr"; exit 1 }
  file = folder "/" name
  printf "" > file
}
inside { print > file }
