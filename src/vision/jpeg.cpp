// SPDX-License-Identifier: Apache-2.0
#include "vision/jpeg.h"

#include <tenon/error.h>

#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "vision/exif.h"
// After <cstdio>, which these headers need and do not include.
#include <jpeglib.h>
#include <jerror.h>

namespace tenon::vision {
namespace {

constexpr int max_scans = 200;  // a real progressive image has about ten; each costs a pass over all coefficients

struct Failure {
  jpeg_error_mgr manager;
  std::jmp_buf escape;
  char text[JMSG_LENGTH_MAX];
};

[[noreturn]] void on_error(j_common_ptr common) {
  auto* failure = reinterpret_cast<Failure*>(common->err);
  (*common->err->format_message)(common, failure->text);
  std::longjmp(failure->escape, 1);
}

// Missing data is an error, though libjpeg would go on with grey; other warnings keep the image. A file that only
// lacks its end marker is whole, unless it is progressive: there whole scans may be missing.
void on_message(j_common_ptr common, int level) {
  if (level >= 0 || !common->is_decompressor) return;
  const int code = common->err->msg_code;
  const bool whole_scans = reinterpret_cast<j_decompress_ptr>(common)->progressive_mode;
  if (code == JWRN_HIT_MARKER || (code == JWRN_JPEG_EOF && whole_scans)) on_error(common);
}

void on_progress(j_common_ptr common) {
  auto* decoder = reinterpret_cast<j_decompress_ptr>(common);
  if (!common->is_decompressor || decoder->input_scan_number <= max_scans) return;
  auto* failure = reinterpret_cast<Failure*>(common->err);
  std::snprintf(failure->text, sizeof failure->text, "more than %d scans", max_scans);
  std::longjmp(failure->escape, 1);
}

void prepare(Failure& failure) {
  jpeg_std_error(&failure.manager);
  failure.manager.error_exit = on_error;
  failure.manager.emit_message = on_message;
  failure.text[0] = 0;
}

struct Decoder {
  jpeg_decompress_struct jpeg{};
  Failure failure{};
  jpeg_progress_mgr progress{};
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }
};

// The functions that set the jump hold nothing that needs a destructor: a jump must not skip one.
bool open_header(Decoder& decoder, const uint8_t* bytes, size_t size) {
  prepare(decoder.failure);
  decoder.jpeg.err = &decoder.failure.manager;
  if (setjmp(decoder.failure.escape)) return false;
  jpeg_create_decompress(&decoder.jpeg);
  decoder.progress.progress_monitor = on_progress;
  decoder.jpeg.progress = &decoder.progress;
  jpeg_mem_src(&decoder.jpeg, bytes, size);
  jpeg_save_markers(&decoder.jpeg, JPEG_APP0 + 1, 0xFFFF);
  jpeg_read_header(&decoder.jpeg, TRUE);
  return true;
}

bool read_rows(Decoder& decoder, uint8_t* pixels, size_t pitch) {
  if (setjmp(decoder.failure.escape)) return false;
  jpeg_decompress_struct& jpeg = decoder.jpeg;
  jpeg.dct_method = JDCT_ISLOW;
  jpeg.do_fancy_upsampling = TRUE;
  jpeg.out_color_space = jpeg.num_components == 4 ? JCS_CMYK : JCS_RGB;
  jpeg_start_decompress(&jpeg);
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW row = pixels + jpeg.output_scanline * pitch;
    jpeg_read_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

// Adobe writers store inverted ink, so that each value is already a light intensity. The product is rounded as OpenCV
// does.
void cmyk_to_rgb(const std::vector<uint8_t>& ink, bool inverted, Image& image) {
  const int flip = inverted ? 0 : 255;
  for (size_t at = 0, count = ink.size() / 4; at < count; ++at) {
    const int light = ink[at * 4 + 3] ^ flip;
    for (size_t channel = 0; channel < 3; ++channel) {
      const int absorbed = 255 - (ink[at * 4 + channel] ^ flip);
      image.pixels[at * 3 + channel] = static_cast<uint8_t>(light - (absorbed * light >> 8));
    }
  }
}

int orientation_of(const jpeg_decompress_struct& jpeg) {
  for (const jpeg_marker_struct* marker = jpeg.marker_list; marker; marker = marker->next)
    if (marker->marker == JPEG_APP0 + 1 && marker->data_length > 6 && std::memcmp(marker->data, "Exif\0\0", 6) == 0)
      return exif_orientation({marker->data + 6, marker->data_length - 6});
  return 1;
}

}  // namespace

Image decode_jpeg(std::span<const uint8_t> bytes, const std::string& name) {
  Decoder decoder;
  const auto broken = [&] {
    return Error(Code::io, "cannot decode the JPEG image", {.where = name, .why = decoder.failure.text});
  };
  if (!open_header(decoder, bytes.data(), bytes.size())) throw broken();
  const jpeg_decompress_struct& jpeg = decoder.jpeg;
  if (static_cast<int64_t>(jpeg.image_width) * jpeg.image_height > max_pixels)
    throw Error(
        Code::resource, "the image is too large",
        {.where = name, .why = std::to_string(jpeg.image_width) + "x" + std::to_string(jpeg.image_height) + " pixels"});
  const int orientation = orientation_of(jpeg);
  Image image(static_cast<int>(jpeg.image_width), static_cast<int>(jpeg.image_height));
  if (jpeg.num_components == 4) {
    std::vector<uint8_t> ink(image.pixels.size() / 3 * 4);
    if (!read_rows(decoder, ink.data(), static_cast<size_t>(image.width) * 4)) throw broken();
    cmyk_to_rgb(ink, jpeg.saw_Adobe_marker, image);
  } else if (!read_rows(decoder, image.pixels.data(), image.pitch())) {
    throw broken();
  }
  return upright(std::move(image), orientation);
}

namespace {

struct Encoder {
  jpeg_compress_struct jpeg{};
  Failure failure{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
  ~Encoder() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);
  }
};

bool encode(Encoder& encoder, const Image& image, int quality) {
  prepare(encoder.failure);
  jpeg_compress_struct& jpeg = encoder.jpeg;
  jpeg.err = &encoder.failure.manager;
  if (setjmp(encoder.failure.escape)) return false;
  jpeg_create_compress(&jpeg);
  jpeg_mem_dest(&jpeg, &encoder.bytes, &encoder.size);
  jpeg.image_width = static_cast<JDIMENSION>(image.width);
  jpeg.image_height = static_cast<JDIMENSION>(image.height);
  jpeg.input_components = 3;
  jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&jpeg);
  jpeg_set_quality(&jpeg, quality, TRUE);
  jpeg.optimize_coding = TRUE;
  jpeg_start_compress(&jpeg, TRUE);
  while (jpeg.next_scanline < jpeg.image_height) {
    JSAMPROW row = const_cast<uint8_t*>(image.row(static_cast<int>(jpeg.next_scanline)));
    jpeg_write_scanlines(&jpeg, &row, 1);
  }
  jpeg_finish_compress(&jpeg);
  return true;
}

}  // namespace

std::vector<uint8_t> jpeg_bytes(const Image& image, int quality) {
  Encoder encoder;
  if (!encode(encoder, image, quality))
    throw Error(Code::io, "cannot encode the JPEG image", {.why = encoder.failure.text});
  return {encoder.bytes, encoder.bytes + encoder.size};
}

}  // namespace tenon::vision
