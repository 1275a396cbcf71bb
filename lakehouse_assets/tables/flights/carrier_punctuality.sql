-- On time: at the gate no more than 15 minutes late. Cancelled and diverted flights count as not on time.
select
  f.carrier,
  max(a.name) as airline,
  trunc(f.scheduled_departure_at, 'MM') as month,
  count(*) as flights,
  count_if(f.status = 'cancelled') as cancelled,
  count_if(f.arrival_delay_min <= 15) / count(*) as on_time_share,
  avg(f.arrival_delay_min) as arrival_delay_mean_min
from silver_flights as f
left join silver_airlines as a on a.carrier = f.carrier
group by f.carrier, trunc(f.scheduled_departure_at, 'MM')
