/* See ATen/ATen.h: c10::GradMode is there. */
