/* The native methods of Digits.java. */
#include "Digits.h" /* by javac -h */
#include "digits.h"

static int failed(JNIEnv* env, tsr_status status) {
  if (status.code == TSR_OK) return 0;
  (*env)->ThrowNew(env, (*env)->FindClass(env, "java/lang/IllegalStateException"), status.message);
  return 1;
}

JNIEXPORT jlong JNICALL Java_Digits_open(JNIEnv* env, jclass type) {
  tsr_context* context = NULL;
  (void)type;
  if (failed(env, digits_open(NULL, &context))) return 0; /* no options: one thread per core */
  return (jlong)(intptr_t)context;
}

JNIEXPORT void JNICALL Java_Digits_run(JNIEnv* env, jclass type, jlong context, jobject picture,
                                       jobject probabilities) {
  const void* inputs[] = {(*env)->GetDirectBufferAddress(env, picture)};
  void* outputs[] = {(*env)->GetDirectBufferAddress(env, probabilities)};
  (void)type;
  failed(env, digits_run((tsr_context*)(intptr_t)context, inputs, outputs, NULL));
}

JNIEXPORT void JNICALL Java_Digits_close(JNIEnv* env, jclass type, jlong context) {
  (void)env;
  (void)type;
  digits_close((tsr_context*)(intptr_t)context);
}
