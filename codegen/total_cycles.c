/* The recurrence of runtime_sim/total_cycles.py, for a tuner's thousands of streams. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* The compiler's command line defines QUEUES, CTRL and SEMAPHORES. */

struct work { /* one entry per command, see runtime_sim.timing.Work */
    const int64_t *queue, *issue, *cycles, *memory, *drains, *wait, *post;
};

struct npu {
    int64_t queue_depth, memories;
    const int64_t *latency; /* by memory */
};

/* The times at which a semaphore was posted, oldest first, and how many were waited for. */
struct posts {
    int64_t *times;
    int64_t posted, taken;
};

enum status { OK, NOT_CAUSAL, NO_MEMORY };

static int64_t later(int64_t a, int64_t b)
{
    return a > b ? a : b;
}

static int64_t latest(const int64_t end[QUEUES])
{
    int64_t last = 0;
    for (int queue = 0; queue < QUEUES; ++queue)
        last = later(last, end[queue]);
    return last;
}

/* Give every semaphore room for its posts in the commands [first, last); returns the room. */
static int64_t *open_posts(const struct work *w, int64_t first, int64_t last,
                           struct posts posts[SEMAPHORES])
{
    int64_t total = 0;
    memset(posts, 0, SEMAPHORES * sizeof *posts);
    for (int64_t i = first; i < last; ++i)
        for (int s = 0; s < SEMAPHORES; ++s)
            posts[s].posted += w->post[i] >> s & 1;
    for (int s = 0; s < SEMAPHORES; ++s)
        total += posts[s].posted;
    int64_t *times = malloc((size_t)(total + 1) * sizeof *times), *next = times;
    for (int s = 0; s < SEMAPHORES; ++s) {
        posts[s].times = next;
        next = times ? next + posts[s].posted : next;
        posts[s].posted = 0;
    }
    return times;
}

/* Take a post of every semaphore in `wait`: the last of their times, or -1 if one has none. */
static int64_t take(struct posts posts[SEMAPHORES], int64_t wait, int64_t begin)
{
    for (int s = 0; wait >> s; ++s) {
        if (!(wait >> s & 1))
            continue;
        if (posts[s].taken == posts[s].posted)
            return -1;
        begin = later(begin, posts[s].times[posts[s].taken++]);
    }
    return begin;
}

/* `left` has when the last queue_depth commands of each queue left it, in turn; `memory_end` when
 * each memory is free. Both start as zeros. */
static int64_t run(const struct work *w, int64_t first, int64_t last, const struct npu *npu,
                   struct posts posts[SEMAPHORES], int64_t *left, int64_t *memory_end)
{
    int64_t start[QUEUES] = {0}, end[QUEUES] = {0}, turn[QUEUES] = {0}, now = 0;
    for (int64_t i = first; i < last; ++i) {
        const int64_t queue = w->queue[i], memory = w->memory[i];
        int64_t *oldest = &left[queue * npu->queue_depth + turn[queue]];
        now = later(now + w->issue[i], w->drains[i] ? latest(end) : *oldest);
        int64_t begin = take(posts, w->wait[i], now);
        if (begin < 0)
            return -1;
        if (memory >= 0) {
            begin = later(begin, start[queue]);
            int64_t at = later(begin + npu->latency[memory], end[queue]);
            start[queue] = at = later(at, memory_end[memory]);
            end[queue] = memory_end[memory] = at + w->cycles[i];
        } else {
            if (queue != CTRL)
                begin = later(begin, end[queue]);
            end[queue] = begin + w->cycles[i];
        }
        *oldest = begin;
        turn[queue] = (turn[queue] + 1) % npu->queue_depth;
        for (int s = 0; w->post[i] >> s; ++s)
            if (w->post[i] >> s & 1)
                posts[s].times[posts[s].posted++] = end[queue];
    }
    return later(now, latest(end));
}

static enum status total(const struct work *w, int64_t first, int64_t last, const struct npu *npu,
                         int64_t *cycles)
{
    struct posts posts[SEMAPHORES];
    int64_t *times = open_posts(w, first, last, posts);
    const size_t places = (size_t)(QUEUES * npu->queue_depth + npu->memories);
    int64_t *left = calloc(places, sizeof *left);
    enum status status = NO_MEMORY;
    if (times && left) {
        int64_t *memory_end = left + QUEUES * npu->queue_depth;
        *cycles = run(w, first, last, npu, posts, left, memory_end);
        status = *cycles < 0 ? NOT_CAUSAL : OK;
    }
    free(times);
    free(left);
    return status;
}

/* Set totals[k] to the cycles of stream k, the commands [ends[k - 1], ends[k]). */
__attribute__((visibility("default")))
int32_t vnpu_totals(const struct work *w, int64_t streams, const int64_t *ends,
                    const struct npu *npu, int64_t *totals);

int32_t vnpu_totals(const struct work *w, int64_t streams, const int64_t *ends,
                    const struct npu *npu, int64_t *totals)
{
    enum status status = OK;
    for (int64_t k = 0; k < streams && status == OK; ++k)
        status = total(w, k ? ends[k - 1] : 0, ends[k], npu, &totals[k]);
    return status;
}
