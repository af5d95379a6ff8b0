# Installs without the source: in the pages of FOLDER a link to a file of the source alone becomes its name, as on the
# site (scripts/site), and a picture its title.
file(GLOB_RECURSE pages "$ENV{DESTDIR}${CMAKE_INSTALL_PREFIX}/${FOLDER}/*.md")
foreach(page ${pages})
  file(READ "${page}" text)
  string(REGEX REPLACE "!\\[([^]\n]*)\\]\\([^)]*\\.png\\)" "(Picture: \\1)" text "${text}")
  string(REGEX REPLACE "\\[[^]\n]*\\]\\((\\.\\./)+([a-z]+/[^)#]*)(#[^)]*)?\\)" "`\\2`" text "${text}")
  file(WRITE "${page}" "${text}")
endforeach()
